#include "cluster/progress_display.h"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace accelopt::cluster {

struct ProgressDisplay::Log {
    std::shared_ptr<spdlog::logger> logger;
};

ProgressDisplay::ProgressDisplay(const std::string& log_path, double interval_s)
    : log_(std::make_unique<Log>()), interval_s_(interval_s), terminal_(isatty(STDERR_FILENO)) {
    log_->logger = std::make_shared<spdlog::logger>(
        "run", std::make_shared<spdlog::sinks::basic_file_sink_mt>(log_path));
    log_->logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    log_->logger->flush_on(spdlog::level::info);
}

ProgressDisplay::~ProgressDisplay() = default;

void ProgressDisplay::line(const std::string& text) {
    if (open_line_) std::fputs("\r\033[K", stderr);
    open_line_ = false;
    std::fprintf(stderr, "%s\n", text.c_str());
    log_->logger->info("{}", text);
}

void ProgressDisplay::show(const Progress& progress, double now_s) {
    if (now_s < next_s_) return;
    const bool first = next_s_ == 0;
    next_s_ = now_s + (terminal_ ? 0.5 : interval_s_);
    if (first && !terminal_) return;
    const std::string text = describe(progress);
    if (terminal_) {
        std::fprintf(stderr, "\r\033[K%s", text.c_str());
        std::fflush(stderr);
        open_line_ = true;
    } else {
        line(text);
    }
}

void ProgressDisplay::finish() {
    if (open_line_) std::fputs("\n", stderr);
    open_line_ = false;
}

std::string describe(const Progress& p) {
    std::string text = fmt::format("[{:>4.0f} s] units {}/<={}, {} in flight", p.elapsed_s,
                                   p.units_done, p.units_planned, p.units_in_flight);
    if (p.units_adopted > 0) text += fmt::format(" ({} adopted)", p.units_adopted);
    text += fmt::format(", {} evaluations", p.physical_evaluations);
    text += p.spend_unknown ? fmt::format(", >= ${:.4f} (some prices unknown)", p.spent_usd)
                            : fmt::format(", ${:.4f}", p.spent_usd);
    const int fresh = p.units_done - p.units_adopted;
    if (fresh > 0 && p.units_planned > p.units_done) {
        const double left = p.elapsed_s / fresh * (p.units_planned - p.units_done);
        text += fmt::format(", <= {:.0f} s left", left);
    }
    std::string best;
    for (const auto& problem : p.problems) {
        if (problem.best.latency_ms <= 0) continue;
        best += fmt::format(" {} {:.2f}x", problem.id,
                            problem.baseline.latency_ms / problem.best.latency_ms);
    }
    if (!best.empty()) text += " |" + best;
    return text;
}

}  // namespace accelopt::cluster
