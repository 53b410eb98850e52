#include "eval/value_check.h"

#include "core/error.h"
#include "eval/reference/python_reference.h"
#include "eval/reply_building.h"
#include "trainium/completion_order.h"

namespace accelopt::eval {

using protocol::Outcome;

namespace {

/// Errors of reduced precision stay a small part of S: rounding every operand and result to
/// bfloat16 (2^-9) a few times over does not reach it, leaving out what matters does.
constexpr double kPrecisionShare = 0x1p-6;
/// Reduced precision shows nearly everywhere; a fault in one place does not.
constexpr double kPrecisionFraction = 0.25;
constexpr const char* kTermPrefix = "without_";

bool is_placed(const std::string& reason) { return reason == "needle" || reason == "tail"; }

std::span<const float> values_of(const trainium::OutputArray& output) {
    return {reinterpret_cast<const float*>(output.bytes.data()),
            output.bytes.size() / sizeof(float)};
}

}  // namespace

std::optional<Reference> ValueCheck::reference_for(const TriedInputs& tried) {
    const PartTimer timer(reply_, "reference");
    const auto kind = conditioned_ ? ReferenceKind::kConditioned : ReferenceKind::kPublished;
    auto made = references_.get(problem_, tried.set, kind);
    if (made) return std::move(*made);
    end_with(reply_, Outcome::kEvaluatorError, "reference_failed",
             plain_diagnostic("the reference of " + problem_.id + " failed: " + made.error()));
    return std::nullopt;
}

std::vector<trainium::InputArray> ValueCheck::inputs_of(const Reference& reference) {
    std::vector<trainium::InputArray> inputs;
    for (std::size_t i = 0; i < reference.inputs(); ++i) {
        const auto array = reference.input(i);
        inputs.push_back({array.data(), static_cast<std::int64_t>(array.size_bytes())});
    }
    return inputs;
}

bool ValueCheck::check_order(const TriedInputs& tried, const trainium::Machine& machine) {
    const auto reference = reference_for(tried);
    if (!reference) return false;
    const PartTimer timer(reply_, "order");
    const std::vector<trainium::InputArray> inputs = inputs_of(*reference);
    trainium::ExecutionLimits limits;
    limits.memory_bytes = request_.limits.memory_bytes;
    limits.program_order = true;
    auto in_program_order = trainium::execute(program_, inputs, limits);
    if (!in_program_order) {
        end_with(reply_, in_program_order.error(), request_.source);
        return false;
    }
    const auto hazard = trainium::find_hazard(program_, trainium::compile_kernel(program_, machine),
                                              inputs, limits, *in_program_order);
    if (!hazard) return true;
    end_with(reply_, *hazard, request_.source);
    return false;
}

std::optional<std::vector<trainium::OutputArray>> ValueCheck::execute(const Reference& reference) {
    const PartTimer timer(reply_, "values");
    trainium::ExecutionLimits limits;
    limits.memory_bytes = request_.limits.memory_bytes;
    auto executed = trainium::execute(program_, inputs_of(reference), limits);
    if (!executed) {
        end_with(reply_, executed.error(), request_.source);
        return std::nullopt;
    }
    require(executed->size() == problem_.outputs.size(), "execution lost an output");
    return std::move(*executed);
}

OutputVerdict ValueCheck::judge(const trainium::OutputArray& output, const Reference& reference,
                                std::size_t index, double constant) const {
    const ExpectedOutput expected = reference.output(index);
    require(output.bytes.size() == expected.value.size_bytes(),
            "execution changed an output's size");
    if (!conditioned_) {
        return verify_published(values_of(output), expected.value, output.unwritten_elements,
                                problem_.tolerance);
    }
    return verify_conditioned(values_of(output), expected, problem_.outputs[index].shape,
                              output.unwritten_elements, constant);
}

bool ValueCheck::check(const TriedInputs& tried) {
    const auto reference = reference_for(tried);
    if (!reference) return false;
    const auto outputs = execute(*reference);
    if (!outputs) return false;
    for (std::size_t i = 0; i < outputs->size(); ++i) {
        OutputVerdict verdict;
        {
            const PartTimer timer(reply_, "verify");
            verdict = judge((*outputs)[i], *reference, i, tried.constant);
        }
        protocol::Correctness row;
        row.seed = tried.seed;
        row.input = tried.row;
        row.output = static_cast<int>(i);
        row.rule = reply_.rule;
        row.rel_l2 = verdict.rel_l2;
        row.max_conditioned = verdict.max_conditioned;
        row.ok = verdict.ok;
        reply_.correctness.push_back(row);
        if (verdict.ok) continue;
        name_failure(tried, *outputs, i, verdict);
        const std::string where = tried.row == "nominal" ? std::to_string(tried.seed) : tried.row;
        end_with(reply_, Outcome::kIncorrect, verdict.reason,
                 plain_diagnostic("output '" + problem_.outputs[i].name + "' on input set " +
                                  where + ": " + verdict.message));
        return false;
    }
    return true;
}

void ValueCheck::name_failure(const TriedInputs& tried,
                              const std::vector<trainium::OutputArray>& outputs, std::size_t index,
                              OutputVerdict& verdict) {
    const bool by_value = verdict.reason == "value" || verdict.reason == "tail";
    if (!conditioned_ || !by_value) return;
    if (tried.stress != nullptr) {
        if (tried.stress->reason != "value") verdict.reason = tried.stress->reason;
        return;
    }
    if (verdict.reason != "value") return;
    const PartTimer timer(reply_, "diagnosis");
    const auto functions = reference_functions(problem_);
    if (!functions) return;
    for (const std::string& function : *functions) {
        if (function.rfind(kTermPrefix, 0) != 0) continue;
        if (is_without_term(tried, function, outputs)) {
            const std::string term = function.substr(std::string(kTermPrefix).size());
            verdict.reason = "term:" + term;
            verdict.message += "; the output is right for the formula without the term " + term;
            return;
        }
    }
    if (verdict.worst_share > kPrecisionShare) return;
    for (const StressSet& stress : problem_.stress) {
        if (is_placed(stress.reason) && !stress.changes_scalars() && misses_needles(stress)) {
            verdict.reason = stress.reason;
            verdict.message += "; input set " + stress.name + " shows where";
            return;
        }
    }
    const double elements = static_cast<double>(values_of(outputs[index]).size());
    if (static_cast<double>(verdict.failing) >= kPrecisionFraction * elements) {
        verdict.reason = "precision";
        verdict.message += "; small errors nearly everywhere, as of a lower precision";
    }
}

bool ValueCheck::is_without_term(const TriedInputs& tried, const std::string& function,
                                 const std::vector<trainium::OutputArray>& outputs) {
    const auto variant = references_.get_variant(problem_, tried.set, function);
    if (!variant) return false;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!judge(outputs[i], *variant, i, tried.constant).ok) return false;
    }
    return true;
}

bool ValueCheck::misses_needles(const StressSet& stress) {
    const auto reference = references_.get(problem_, stress_set(problem_, request_.secret, stress),
                                           ReferenceKind::kConditioned);
    if (!reference) return false;
    std::vector<trainium::InputArray> inputs;
    for (std::size_t i = 0; i < reference->inputs(); ++i) {
        const auto array = reference->input(i);
        inputs.push_back({array.data(), static_cast<std::int64_t>(array.size_bytes())});
    }
    trainium::ExecutionLimits limits;
    limits.memory_bytes = request_.limits.memory_bytes;
    const auto outputs = trainium::execute(program_, inputs, limits);
    if (!outputs) return false;
    for (std::size_t i = 0; i < outputs->size(); ++i) {
        const OutputVerdict verdict = judge((*outputs)[i], *reference, i, 1);
        if (verdict.reason == "nonfinite" || verdict.worst_share > kPrecisionShare) return true;
    }
    return false;
}

}  // namespace accelopt::eval
