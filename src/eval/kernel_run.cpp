#include "eval/kernel_run.h"

#include <algorithm>

#include "core/text.h"
#include "eval/kernel_checks.h"
#include "eval/reply_building.h"
#include "eval/trace_options.h"
#include "nki/lint.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "trainium/timing.h"

namespace accelopt::eval {

namespace {

using protocol::Outcome;

/// Parameters that take positional arguments, when the kernel function is found by its name.
std::vector<std::string> parameters_of(const nki::Module& module,
                                       const std::optional<std::string>& entry) {
    std::vector<std::string> names;
    for (const nki::StmtPtr& stmt : module.body) {
        if (stmt->kind != nki::StmtKind::kFunction) continue;
        if (entry ? stmt->text != *entry : stmt->text != "kernel" && stmt->decorators.empty()) {
            continue;
        }
        names.clear();
        for (const nki::Parameter& parameter : stmt->parameters) {
            if (parameter.kind == nki::ParameterKind::kPositional) names.push_back(parameter.name);
        }
    }
    return names;
}

}  // namespace

KernelRun::KernelRun(const KernelUnderTest& kernel, const trainium::Machine& machine,
                     protocol::EvaluationReply& reply)
    : kernel_(kernel), machine_(machine), reply_(reply) {}

void KernelRun::end(Outcome outcome, const std::string& reason, const std::string& message,
                    const std::string& remedy) {
    end_with(reply_, outcome, reason, plain_diagnostic(message, remedy));
}

bool KernelRun::end(const nki::Finding& finding) {
    end_with(reply_, finding, kernel_.source);
    return false;
}

bool KernelRun::parse() {
    module_ = parse_kernel(kernel_.source, reply_);
    if (module_) hash_ = nki::normalised_hash(*module_);
    return module_.has_value();
}

/// Arguments are positional: a name that is a parameter at another place is a slip of the asker.
bool KernelRun::check_order() {
    const std::vector<std::string> parameters = parameters_of(*module_, kernel_.entry);
    for (std::size_t i = 0; i < kernel_.names.size(); ++i) {
        const auto place = std::find(parameters.begin(), parameters.end(), kernel_.names[i]);
        if (place == parameters.end()) continue;
        if (static_cast<std::size_t>(place - parameters.begin()) == i) continue;
        end(Outcome::kEvaluatorError, "bad_request",
            "argument " + std::to_string(i + 1) + " is called '" + kernel_.names[i] +
                "', but that is parameter " + std::to_string(place - parameters.begin() + 1) +
                " of the kernel",
            "give the arguments in the order of the parameters: " + join(parameters, ", "));
        return false;
    }
    return true;
}

bool KernelRun::check() {
    reply_.tier = "legality";
    if (!parse()) return false;
    if (const auto broken = nki::check_rules(*module_)) return end(*broken);
    if (kernel_.published_ban) {
        if (const auto banned = find_precision_ban(kernel_.source)) return end(*banned);
    }
    if (!check_order()) return false;
    const PartTimer timer(reply_, "trace");
    nki::TraceOptions options = trace_options(machine_, kernel_.limits);
    options.entry = kernel_.entry;
    options.grid = kernel_.grid;
    auto traced = nki::trace(*module_, kernel_.arguments, options);
    if (!traced) return end(traced.error());
    program_ = std::move(*traced);
    reply_.cost.steps = program_->steps;
    if (const auto finding = trainium::check_legality(*program_, machine_)) return end(*finding);
    return check_outputs();
}

bool KernelRun::check_outputs() {
    const auto reject = [&](const std::string& reason, const std::string& message) {
        end(Outcome::kRejected, reason, message, "return the HBM tensor that holds the result");
        return false;
    };
    if (program_->outputs.empty()) return reject("output_shape", "the kernel returns no tensor");
    for (const nki::TensorId id : program_->outputs) {
        const nki::Tensor& tensor = program_->tensors.at(static_cast<std::size_t>(id));
        if (tensor.role == nki::TensorRole::kInput || tensor.role == nki::TensorRole::kConstant) {
            return reject("output_alias", "the kernel returns '" + tensor.name +
                                              "', which is not a tensor it computed");
        }
        if (tensor.buffer != nki::Buffer::kHbm) {
            return reject("output_type", "the kernel returns '" + tensor.name +
                                             "', an on-chip tile in " +
                                             std::string(to_string(tensor.buffer)));
        }
    }
    return true;
}

void KernelRun::predict() {
    const PartTimer timer(reply_, "timing");
    reply_.tier = "timing";
    trainium::PredictedProfile predicted =
        trainium::predict_in_detail(*program_, machine_, kernel_.profile_rows);
    reply_.profile = std::move(predicted.compiled);
    reply_.as_written = std::move(predicted.as_written);
    if (kernel_.observer) kernel_.observer(*program_, machine_);
}

std::optional<std::vector<trainium::OutputArray>> KernelRun::execute(
    std::span<const trainium::InputArray> inputs) {
    const PartTimer timer(reply_, "values");
    reply_.tier = "values";
    trainium::ExecutionLimits limits;
    limits.memory_bytes = kernel_.limits.memory_bytes;
    auto executed = trainium::execute(*program_, inputs, limits);
    if (!executed) {
        end(executed.error());
        return std::nullopt;
    }
    return std::move(*executed);
}

void add_note(protocol::EvaluationReply& reply, const std::string& code,
              const std::string& message) {
    protocol::Diagnostic note;
    note.code = code;
    note.severity = "note";
    note.message = message;
    reply.diagnostics.push_back(std::move(note));
}

}  // namespace accelopt::eval
