#include "cli/trace_option.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace accelopt::cli {
namespace {

std::string summary_text(const std::string& path, const trainium::TraceSummary& summary) {
    std::string text = fmt::format("{}: {} events", path, summary.events);
    if (summary.merged > 0) {
        text += fmt::format(
            "; {} blocks drawn as part of a neighbour of the same line (idle gaps up to {:.0f} ns "
            "hidden)",
            summary.merged, summary.merge_gap_ns);
    }
    if (summary.from_ns > 0 || summary.to_ns < summary.latency_ns) {
        text += fmt::format("; {:.0f} to {:.0f} ns of {:.0f}", summary.from_ns, summary.to_ns,
                            summary.latency_ns);
    }
    if (summary.merged > 0 || summary.to_ns < summary.latency_ns) {
        text += "; a part in full: --trace-from NS --trace-to NS";
    }
    return text + "; open it at https://ui.perfetto.dev";
}

}  // namespace

void TraceOption::add_to(CLI::App& command) {
    auto* trace = command.add_option("--trace", path_,
                                     "write a trace for Perfetto or chrome://tracing (JSON)");
    command.add_option("--trace-from", from_ns_, "first nanosecond of the trace")
        ->check(CLI::NonNegativeNumber)
        ->needs(trace);
    command.add_option("--trace-to", to_ns_, "last nanosecond of the trace")
        ->check(CLI::PositiveNumber)
        ->needs(trace);
}

eval::KernelObserver TraceOption::observer(const std::string& kernel_name) {
    if (path_.empty()) return {};
    if (to_ns_ && *to_ns_ <= from_ns_) {
        throw Error(ErrorSource::kUser, "trace",
                    fmt::format("--trace-to {} must be after --trace-from {}", *to_ns_, from_ns_));
    }
    writing_ = std::make_shared<Writing>();
    writing_->file.open(path_, std::ios::trunc);
    if (!writing_->file) {
        throw Error(ErrorSource::kUser, "trace",
                    "cannot write the trace to " + path_ + ": " + std::strerror(errno));
    }
    trainium::TraceOptions options;
    options.kernel = kernel_name;
    options.from_ns = from_ns_;
    if (to_ns_) options.to_ns = *to_ns_;
    return [writing = writing_, options](const nki::Program& program,
                                         const trainium::Machine& machine) {
        writing->summary = trainium::trace_program(writing->file, program, machine, options);
        writing->file.flush();
    };
}

std::string TraceOption::report() {
    if (!writing_) return "";
    if (!writing_->summary) return path_ + ": empty, since the kernel was not profiled\n";
    if (!writing_->file) {
        throw Error(ErrorSource::kUser, "trace", "the trace could not be written to " + path_);
    }
    return summary_text(path_, *writing_->summary) + "\n";
}

}  // namespace accelopt::cli
