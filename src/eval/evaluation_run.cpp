#include "eval/evaluation_run.h"

#include <algorithm>

#include "core/data_path.h"
#include "core/text.h"
#include "eval/bounds.h"
#include "eval/kernel_checks.h"
#include "eval/measured.h"
#include "eval/reply_building.h"
#include "eval/trace_options.h"
#include "eval/value_check.h"
#include "nki/lint.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "trainium/timing.h"

namespace accelopt::eval {

namespace {

using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

bool has_tier(const EvaluationRequest& request, const char* tier) {
    return std::find(request.tiers.begin(), request.tiers.end(), tier) != request.tiers.end();
}

bool compares_values(const EvaluationRequest& request) {
    return has_tier(request, "seed") || has_tier(request, "values") || has_tier(request, "stress");
}

/// One evaluation: the tiers in order, each ending the run at its first finding.
class Run {
  public:
    Run(const EvaluationRequest& request, EvaluationReply& reply, const EvaluationContext& context)
        : request_(request), reply_(reply), context_(context), problem_(context.problem) {}

    void run() {
        reply_.rule = effective_rule(problem_, request_.rule);
        if (!tier("legality", [&] { return check_source(); })) return;
        if (has_tier(request_, "timing") && !tier("timing", [&] { return predict(); })) return;
        if (compares_values(request_) && !check_task_first()) return;
        const std::size_t seeds = request_.seeds.size();
        std::size_t checked = 0;
        if (has_tier(request_, "seed")) {
            if (!tier("seed", [&] { return check_seeds(0, 1); })) return;
            checked = 1;
        }
        if (has_tier(request_, "values") &&
            !tier("values", [&] { return check_seeds(checked, seeds); })) {
            return;
        }
        if (has_tier(request_, "stress") && !tier("stress", [&] { return check_stress(); })) {
            return;
        }
        if (has_tier(request_, "order") && !tier("order", [&] { return check_order(); })) return;
        reply_.outcome = Outcome::kOk;
        reply_.reason.clear();
    }

  private:
    template <typename Body>
    bool tier(const char* name, Body body) {
        reply_.tier = name;
        const PartTimer timer(reply_, std::string("tier_") + name);
        return body();
    }

    bool check_source();
    std::optional<nki::Program> trace(const Problem& problem);
    bool predict();
    bool check_task_first();
    bool check_seeds(std::size_t first, std::size_t last);
    bool check_stress();
    bool check_stress_set(const StressSet& stress);
    bool check_order();
    bool check_shape(const Sizes& sizes);
    InputSet seed_set(const Problem& problem, int seed) const;

    const EvaluationRequest& request_;
    EvaluationReply& reply_;
    const EvaluationContext& context_;
    const Problem& problem_;
    std::optional<nki::Module> module_;
    std::optional<nki::Program> program_;
};

bool Run::check_source() {
    module_ = parse_kernel(request_.source, reply_);
    if (!module_) return false;
    if (auto broken = nki::check_rules(*module_)) {
        end_with(reply_, *broken, request_.source);
        return false;
    }
    // The conditioned rule bounds errors and needs no ban on names.
    if (reply_.rule == "published") {
        if (auto banned = find_precision_ban(request_.source)) {
            end_with(reply_, *banned, request_.source);
            return false;
        }
    }
    program_ = trace(problem_);
    if (!program_) return false;
    const bool is_baseline =
        !context_.baseline_hash.empty() && nki::normalised_hash(*module_) == context_.baseline_hash;
    if (is_baseline && problem_.shape_name == "full") {
        reply_.measured = read_measured(
            data_root() + "/nkibench/measured/" + context_.machine.name + "_baseline.csv",
            problem_.id);
    }
    return true;
}

/// Traces the kernel at a problem's shape and checks its legality there.
std::optional<nki::Program> Run::trace(const Problem& problem) {
    const trainium::Machine& machine = context_.machine;
    std::optional<nki::Program> program;
    {
        const PartTimer timer(reply_, "trace");
        nki::TraceOptions options = trace_options(machine, request_.limits);
        options.entry = request_.entry;
        auto traced = nki::trace(*module_, problem.kernel_arguments(), options);
        if (!traced) {
            end_with(reply_, traced.error(), request_.source);
            return std::nullopt;
        }
        reply_.cost.steps += traced->steps;
        program = std::move(traced).value();
    }
    const PartTimer timer(reply_, "legality");
    auto finding = trainium::check_legality(*program, machine);
    if (!finding) finding = check_outputs(*program, problem);
    if (finding) {
        end_with(reply_, *finding, request_.source);
        return std::nullopt;
    }
    return program;
}

bool Run::predict() {
    const PartTimer timer(reply_, "timing");
    const trainium::Machine& machine = context_.machine;
    trainium::PredictedProfile predicted =
        trainium::predict_in_detail(*program_, machine, request_.profile_rows);
    reply_.profile = std::move(predicted.compiled);
    reply_.as_written = std::move(predicted.as_written);
    if (context_.observer) context_.observer(*program_, machine);
    add_peak_figures(problem_, machine, reply_);
    const double bound = *reply_.profile->lower_bound_ms;
    const double latency = reply_.profile->latency.value_or(0);
    if (latency >= bound) return true;  // also false for NaN
    end_with(reply_, Outcome::kImplausible, "below_bound",
             plain_diagnostic("the predicted latency of " + std::to_string(latency) +
                              " ms is below what the problem's compulsory bytes and operations "
                              "allow: " +
                              std::to_string(bound) + " ms"));
    return false;
}

/// A problem that lets trivial answers pass judges nobody.
bool Run::check_task_first() {
    if (reply_.rule != "conditioned") return true;
    const PartTimer timer(reply_, "task");
    const TaskReport& report = context_.task();
    if (report.ok()) return true;
    protocol::Diagnostic diagnostic =
        plain_diagnostic("problem " + problem_.id + " cannot judge kernels: " + report.complaint());
    diagnostic.code = report.fault.empty() ? "task/insensitive" : "reference_failed";
    diagnostic.remedy = "see: accelopt validate " + problem_.id;
    end_with(reply_, Outcome::kEvaluatorError,
             report.fault.empty() ? "insensitive" : "reference_failed", std::move(diagnostic));
    return false;
}

InputSet Run::seed_set(const Problem& problem, int seed) const {
    return request_.seed_rule == "published" ? published_set(problem, seed)
                                             : nominal_set(problem, request_.secret, seed);
}

bool Run::check_seeds(std::size_t first, std::size_t last) {
    ValueCheck values(request_, reply_, problem_, *program_, context_.references);
    for (std::size_t i = first; i < last; ++i) {
        TriedInputs tried;
        tried.seed = request_.seeds[i];
        tried.set = seed_set(problem_, tried.seed);
        tried.row = "nominal";
        tried.constant = problem_.conditioned_constant.value_or(0);
        if (!values.check(tried)) return false;
    }
    return true;
}

bool Run::check_stress() {
    // The published rule bounds a norm, which stress inputs make meaningless.
    if (reply_.rule == "conditioned") {
        for (const StressSet& stress : problem_.stress) {
            if (!check_stress_set(stress)) return false;
        }
    }
    return std::all_of(problem_.shapes.begin(), problem_.shapes.end(),
                       [&](const Sizes& sizes) { return check_shape(sizes); });
}

bool Run::check_stress_set(const StressSet& stress) {
    TriedInputs tried;
    tried.set = stress_set(problem_, request_.secret, stress);
    tried.row = stress.name;
    tried.constant = stress.constant.value_or(*problem_.conditioned_constant);
    tried.stress = &stress;
    if (!stress.changes_scalars()) {
        return ValueCheck(request_, reply_, problem_, *program_, context_.references).check(tried);
    }
    // Other scalars make another program of the same kernel.
    Problem other = problem_;
    other.inputs = stress.inputs;
    const auto program = trace(other);
    return program &&
           ValueCheck(request_, reply_, other, *program, context_.references).check(tried);
}

/// The first input set in program order and in completion order.
bool Run::check_order() {
    ValueCheck values(request_, reply_, problem_, *program_, context_.references);
    TriedInputs tried;
    tried.seed = request_.seeds[0];
    tried.set = seed_set(problem_, tried.seed);
    return values.check_order(tried, context_.machine);
}

/// The kernel at another member of the problem's shape domain.
bool Run::check_shape(const Sizes& sizes) {
    const Problem other = load_problem_at(problem_.folder, sizes);
    const auto program = trace(other);
    if (!program) return false;
    ValueCheck values(request_, reply_, other, *program, context_.references);
    TriedInputs tried;
    tried.set = nominal_set(other, request_.secret, 0);
    tried.row = other.shape_name;
    tried.constant = other.conditioned_constant.value_or(0);
    return values.check(tried);
}

}  // namespace

std::string request_fault(const EvaluationRequest& request) {
    static const std::vector<std::string> kTiers = {"legality", "timing", "seed",
                                                    "values",   "stress", "order"};
    if (request.rule != "published" && request.rule != "conditioned") {
        return "rule must be \"conditioned\" or \"published\", not \"" + request.rule + "\"";
    }
    if (request.seed_rule != "secret" && request.seed_rule != "published") {
        return "seed_rule must be \"secret\" or \"published\", not \"" + request.seed_rule + "\"";
    }
    for (const std::string& tier : request.tiers) {
        if (std::find(kTiers.begin(), kTiers.end(), tier) == kTiers.end()) {
            return "unknown tier \"" + tier + "\" (known: " + join(kTiers, ", ") + ")";
        }
    }
    if (request.tiers.empty()) return "at least one tier must be asked for";
    const bool draws =
        has_tier(request, "seed") || has_tier(request, "values") || has_tier(request, "order");
    if (draws && request.seeds.empty()) {
        return "comparing values needs at least one seed";
    }
    if (request.profile_rows < -1) {
        return "profile_rows must be -1 (all), 0 (none) or a number of rows";
    }
    if (request.limits.steps < 1 || request.limits.memory_bytes < 1) {
        return "limits must be positive";
    }
    return "";
}

std::string effective_rule(const Problem& problem, const std::string& asked) {
    return asked == "conditioned" && problem.conditioned_constant ? "conditioned" : "published";
}

void run_evaluation(const EvaluationRequest& request, EvaluationReply& reply,
                    const EvaluationContext& context) {
    Run(request, reply, context).run();
}

}  // namespace accelopt::eval
