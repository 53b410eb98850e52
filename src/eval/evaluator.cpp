#include "eval/evaluator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>

#include "core/data_path.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "eval/bounds.h"
#include "eval/kernel_checks.h"
#include "eval/measured.h"
#include "eval/problem.h"
#include "eval/reference/python_reference.h"
#include "eval/reference/reference_store.h"
#include "eval/verifier.h"
#include "eval/trace_options.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "trainium/execute.h"
#include "trainium/timing.h"

namespace accelopt::eval {

namespace {

using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

/// Adds the seconds of a scope to one part of the cost.
class PartTimer {
  public:
    PartTimer(EvaluationReply& reply, const char* part) : reply_(reply), part_(part) {}
    ~PartTimer() {
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
        auto& parts = reply_.cost.parts;
        const auto found = std::find_if(parts.begin(), parts.end(),
                                        [&](const auto& entry) { return entry.first == part_; });
        if (found == parts.end()) {
            parts.emplace_back(part_, spent.count());
        } else {
            found->second += spent.count();
        }
    }
    PartTimer(const PartTimer&) = delete;
    PartTimer& operator=(const PartTimer&) = delete;

  private:
    EvaluationReply& reply_;
    const char* part_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool has_tier(const EvaluationRequest& request, const char* tier) {
    return std::find(request.tiers.begin(), request.tiers.end(), tier) != request.tiers.end();
}

/// What the asker got wrong, or "".
std::string request_fault(const EvaluationRequest& request) {
    static const std::vector<std::string> kTiers = {"legality", "timing", "values"};
    if (request.rule != "published") {
        return "rule must be \"published\", not \"" + request.rule + "\"";
    }
    for (const std::string& tier : request.tiers) {
        if (std::find(kTiers.begin(), kTiers.end(), tier) == kTiers.end()) {
            return "unknown tier \"" + tier + "\" (known: " + join(kTiers, ", ") + ")";
        }
    }
    if (request.tiers.empty()) return "at least one tier must be asked for";
    if (has_tier(request, "values") && request.seeds.empty()) {
        return "tier \"values\" needs at least one seed";
    }
    if (request.limits.steps < 1 || request.limits.memory_bytes < 1) {
        return "limits must be positive";
    }
    return "";
}

void end_with(EvaluationReply& reply, Outcome outcome, const std::string& reason,
              protocol::Diagnostic diagnostic) {
    reply.outcome = outcome;
    reply.reason = reason;
    if (diagnostic.code.empty()) diagnostic.code = reason;
    reply.diagnostics.push_back(std::move(diagnostic));
}

protocol::Diagnostic plain_diagnostic(const std::string& message) {
    protocol::Diagnostic diagnostic;
    diagnostic.message = message;
    return diagnostic;
}

void end_with(EvaluationReply& reply, const nki::Finding& finding, const std::string& source) {
    // A finding with an outcome outside the frozen table is a fault of the front end, not of the
    // kernel.
    const auto outcome = protocol::parse_outcome(finding.outcome);
    end_with(reply, outcome.value_or(Outcome::kEvaluatorError), finding.code,
             to_diagnostic(finding, source));
}

}  // namespace

struct Evaluator::State {
    /// A problem at one shape, with what the baseline is known by.
    struct LoadedProblem {
        Problem problem;
        std::string baseline_hash;  ///< normalised; "" when the baseline does not parse
    };

    explicit State(EvaluatorOptions options)
        : references(options.cache_directory, options.cache_bytes) {}

    const trainium::Machine& machine(const std::string& target);
    const LoadedProblem& problem(const EvaluationRequest& request);
    void run(const EvaluationRequest& request, EvaluationReply& reply);

    ReferenceStore references;
    std::map<std::string, trainium::Machine> machines;
    std::map<std::string, LoadedProblem> problems;
};

namespace {

/// One evaluation: the tiers in order, each ending the run at its first finding.
class Run {
  public:
    Run(const EvaluationRequest& request, EvaluationReply& reply, const Problem& problem,
        const std::string& baseline_hash, const trainium::Machine& machine,
        ReferenceStore& references)
        : request_(request),
          reply_(reply),
          problem_(problem),
          baseline_hash_(baseline_hash),
          machine_(machine),
          references_(references) {}

    void run() {
        reply_.tier = "legality";
        const auto program = check_source();
        if (!program) return;
        if (has_tier(request_, "timing")) {
            reply_.tier = "timing";
            if (!predict(*program)) return;
        }
        if (has_tier(request_, "values")) {
            reply_.tier = "values";
            for (const int seed : request_.seeds) {
                if (!check_values(*program, seed)) return;
            }
        }
        reply_.outcome = Outcome::kOk;
        reply_.reason.clear();
    }

  private:
    std::optional<nki::Program> check_source();
    std::optional<nki::Program> trace(const nki::Module& module);
    bool predict(const nki::Program& program);
    bool check_values(const nki::Program& program, int seed);
    bool verify_output(int seed, std::size_t index, const trainium::OutputArray& output,
                       std::span<const float> reference);

    const EvaluationRequest& request_;
    EvaluationReply& reply_;
    const Problem& problem_;
    const std::string& baseline_hash_;
    const trainium::Machine& machine_;
    ReferenceStore& references_;
};

std::optional<nki::Program> Run::check_source() {
    std::optional<nki::Module> module;
    {
        const PartTimer timer(reply_, "parse");
        auto parsed = nki::parse(request_.source);
        if (!parsed) {
            const nki::SyntaxError& error = parsed.error();
            protocol::Diagnostic diagnostic = plain_diagnostic(error.message);
            diagnostic.code = "syntax_error";
            diagnostic.line = error.line;
            diagnostic.column = error.column;
            diagnostic.snippet = error.snippet;
            end_with(reply_, Outcome::kSyntaxError, error.message, std::move(diagnostic));
            return std::nullopt;
        }
        module = std::move(*parsed);
    }
    if (auto banned = find_precision_ban(request_.source)) {
        end_with(reply_, *banned, request_.source);
        return std::nullopt;
    }
    auto program = trace(*module);
    if (!program) return std::nullopt;
    {
        const PartTimer timer(reply_, "legality");
        auto finding = trainium::check_legality(*program, machine_);
        if (!finding) finding = check_outputs(*program, problem_);
        if (finding) {
            end_with(reply_, *finding, request_.source);
            return std::nullopt;
        }
    }
    const bool is_baseline =
        !baseline_hash_.empty() && nki::normalised_hash(*module) == baseline_hash_;
    if (is_baseline && problem_.shape_name == "full") {
        reply_.measured = read_measured(
            data_root() + "/nkibench/measured/" + machine_.name + "_baseline.csv", problem_.id);
    }
    return program;
}

std::optional<nki::Program> Run::trace(const nki::Module& module) {
    const PartTimer timer(reply_, "trace");
    nki::TraceOptions options = trace_options(machine_);
    options.entry = request_.entry;
    options.limits.steps = request_.limits.steps;
    options.limits.memory_bytes = request_.limits.memory_bytes;
    // A program of many tiny operations may take a quarter of the budget, which growing the list
    // of operations and lowering it for the timing model multiply.
    options.limits.operations = std::clamp<std::int64_t>(
        request_.limits.memory_bytes / 4 / static_cast<std::int64_t>(sizeof(nki::Operation)), 1,
        options.limits.operations);
    auto traced = nki::trace(module, problem_.kernel_arguments(), options);
    if (!traced) {
        end_with(reply_, traced.error(), request_.source);
        return std::nullopt;
    }
    reply_.cost.steps = traced->steps;
    return std::move(traced).value();
}

bool Run::predict(const nki::Program& program) {
    const PartTimer timer(reply_, "timing");
    trainium::PredictedProfile predicted = trainium::predict(program, machine_);
    const double bound = lower_bound_ms(problem_, machine_);
    for (protocol::Profile* profile : {&predicted.compiled, &predicted.as_written}) {
        profile->lower_bound_ms = bound;
    }
    const double latency = predicted.compiled.latency.value_or(0);
    if (latency > 0) {
        predicted.compiled.percent_of_peak = peak_model_ms(problem_, machine_) / latency;
    }
    reply_.profile = std::move(predicted.compiled);
    reply_.as_written = std::move(predicted.as_written);
    if (latency >= bound) return true;  // also false for NaN
    end_with(reply_, Outcome::kImplausible, "below_bound",
             plain_diagnostic("the predicted latency of " + std::to_string(latency) +
                              " ms is below what the problem's compulsory bytes and operations "
                              "allow: " +
                              std::to_string(bound) + " ms"));
    return false;
}

bool Run::check_values(const nki::Program& program, int seed) {
    std::shared_ptr<const ReferenceData> data;
    {
        const PartTimer timer(reply_, "reference");
        auto made = references_.get(problem_, input_seed(request_.secret, problem_.id, seed));
        if (!made) {
            end_with(
                reply_, Outcome::kEvaluatorError, "reference_failed",
                plain_diagnostic("the reference of " + problem_.id + " failed: " + made.error()));
            return false;
        }
        data = std::move(*made);
    }
    const std::size_t tensors = data->arrays() - problem_.outputs.size();
    std::vector<trainium::InputArray> inputs;
    for (std::size_t i = 0; i < tensors; ++i) {
        const auto array = data->array(i);
        inputs.push_back({array.data(), static_cast<std::int64_t>(array.size_bytes())});
    }
    std::vector<trainium::OutputArray> outputs;
    {
        const PartTimer timer(reply_, "values");
        trainium::ExecutionLimits limits;
        limits.memory_bytes = request_.limits.memory_bytes;
        auto executed = trainium::execute(program, inputs, limits);
        if (!executed) {
            end_with(reply_, executed.error(), request_.source);
            return false;
        }
        outputs = std::move(*executed);
    }
    const PartTimer timer(reply_, "verify");
    require(outputs.size() == problem_.outputs.size(), "execution lost an output");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!verify_output(seed, i, outputs[i], data->array(tensors + i))) return false;
    }
    return true;
}

bool Run::verify_output(int seed, std::size_t index, const trainium::OutputArray& output,
                        std::span<const float> reference) {
    require(output.bytes.size() == reference.size_bytes(), "execution changed an output's size");
    const std::span<const float> values(reinterpret_cast<const float*>(output.bytes.data()),
                                        reference.size());
    const OutputVerdict verdict =
        verify_published(values, reference, output.unwritten_elements, problem_.tolerance);
    protocol::Correctness row;
    row.seed = seed;
    row.output = static_cast<int>(index);
    row.rule = "published";
    row.rel_l2 = verdict.rel_l2;
    row.ok = verdict.ok;
    reply_.correctness.push_back(row);
    if (verdict.ok) return true;
    end_with(reply_, Outcome::kIncorrect, verdict.reason,
             plain_diagnostic("output '" + problem_.outputs[index].name + "' on input set " +
                              std::to_string(seed) + ": " + verdict.message));
    return false;
}

}  // namespace

const trainium::Machine& Evaluator::State::machine(const std::string& target) {
    const auto found = machines.find(target);
    if (found != machines.end()) return found->second;
    return machines.emplace(target, load_machine(target)).first->second;
}

const Evaluator::State::LoadedProblem& Evaluator::State::problem(const EvaluationRequest& request) {
    const std::string key = request.shape + ":" + request.problem;
    const auto found = problems.find(key);
    if (found != problems.end()) return found->second;
    LoadedProblem loaded;
    loaded.problem = load_problem(request.problem, request.shape);
    const auto baseline = nki::parse(loaded.problem.baseline_source);
    if (baseline) loaded.baseline_hash = nki::normalised_hash(*baseline);
    return problems.emplace(key, std::move(loaded)).first->second;
}

void Evaluator::State::run(const EvaluationRequest& request, EvaluationReply& reply) {
    const std::string fault = request_fault(request);
    if (!fault.empty()) {
        end_with(reply, Outcome::kEvaluatorError, "bad_request", plain_diagnostic(fault));
        return;
    }
    const trainium::Machine& target = machine(request.target);
    reply.machine = target.name + "@" + target.hash;
    const LoadedProblem& loaded = problem(request);
    Run(request, reply, loaded.problem, loaded.baseline_hash, target, references).run();
}

Evaluator::Evaluator(EvaluatorOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

Evaluator::~Evaluator() = default;

protocol::EvaluationReply Evaluator::evaluate(const protocol::EvaluationRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    EvaluationReply reply;
    reply.id = request.id;
    reply.problem = request.problem;
    reply.target = request.target;
    reply.source_sha256 = sha256_hex(request.source);
    reply.accelopt_version = ACCELOPT_VERSION;
    try {
        state_->run(request, reply);
    } catch (const std::bad_alloc&) {
        end_with(reply, Outcome::kEvaluatorError, "out_of_memory",
                 plain_diagnostic("the evaluator ran out of memory"));
    } catch (const Error& error) {
        const bool asked_wrongly =
            error.source() == ErrorSource::kUser || error.source() == ErrorSource::kConfig;
        end_with(reply, Outcome::kEvaluatorError, asked_wrongly ? "bad_request" : error.code(),
                 plain_diagnostic(error.what()));
    } catch (const std::exception& error) {
        end_with(reply, Outcome::kEvaluatorError, "internal", plain_diagnostic(error.what()));
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    reply.cost.wall_s = spent.count();
    return reply;
}

}  // namespace accelopt::eval
