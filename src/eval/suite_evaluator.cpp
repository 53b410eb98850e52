#include "eval/suite_evaluator.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <new>

#include "core/data_path.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/version.h"
#include "eval/bounds.h"
#include "eval/evaluator.h"
#include "eval/kernel_run.h"
#include "eval/measured.h"
#include "eval/problem.h"
#include "eval/reference/python_reference.h"
#include "eval/reference/suite_reference.h"
#include "eval/reply_building.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::eval {

namespace {

using protocol::EvaluationReply;
using protocol::Outcome;

/// AccelOpt's harness (accelopt/kernel_wrapper.py): its seeds and its usual tolerance.
constexpr std::uint32_t kPublishedSeeds[] = {0, 21, 42, 63, 84};
constexpr double kPublishedTolerance = 2e-5;

constexpr const char* kReferenceRemedy =
    "a reference defines get_inputs(), forward(), and where the kernel sees other shapes "
    "transform_to_nki_inputs() and transform_nki_outputs()";

/// Our problem of that name, when the suite's kernel gets the same arguments.
std::optional<Problem> matching_problem(const SuiteProblem& problem,
                                        const std::vector<nki::Argument>& arguments) {
    const std::vector<std::string> shipped = shipped_problems();
    if (std::find(shipped.begin(), shipped.end(), problem.name) == shipped.end()) return {};
    Problem ours = load_problem(problem.name, "full");
    const std::vector<nki::Argument> expected = ours.kernel_arguments();
    if (expected.size() != arguments.size()) return {};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto* a = std::get_if<nki::TensorArgument>(&arguments[i]);
        const auto* b = std::get_if<nki::TensorArgument>(&expected[i]);
        if ((a == nullptr) != (b == nullptr)) return {};
        if (a != nullptr && (a->shape != b->shape || a->dtype != b->dtype)) return {};
        if (a == nullptr && arguments[i].index() == expected[i].index()) {
            const auto* number = std::get_if<double>(&arguments[i]);
            if (number != nullptr && *number != std::get<double>(expected[i])) return {};
        }
    }
    return ours;
}

std::uint32_t own_seed(const std::string& secret, const std::string& name, int k) {
    return static_cast<std::uint32_t>(
        std::stoul(input_seed(secret, name, k).substr(0, 8), nullptr, 16));
}

}  // namespace

struct SuiteEvaluator::State {
    std::string target;
    trainium::Machine machine;

    /// A file of the suite, or nullopt with the reply ended.
    static std::optional<std::string> read(const std::string& path, const char* what,
                                           EvaluationReply& reply);
    void run(const SuiteProblem& problem, const SuiteRequest& request, EvaluationReply& reply);
    void run_conditioned(const SuiteProblem& problem, const Problem& ours,
                         const SuiteRequest& request, EvaluationReply& reply);
    std::optional<Evaluator> evaluator;  ///< of our own problems, made when first needed
    void add_measured(const SuiteProblem& problem, const Problem& ours,
                      const std::string& normalised_hash, EvaluationReply& reply) const;
    static bool check_types(KernelRun& run);
    static bool check_values(KernelRun& run, SuiteReference& reference,
                             const std::vector<nki::Argument>& arguments, std::uint32_t seed,
                             int label, double tolerance, EvaluationReply& reply);
};

namespace {

void end(EvaluationReply& reply, const std::string& reason, const std::string& message,
         const std::string& remedy) {
    end_with(reply, Outcome::kEvaluatorError, reason, plain_diagnostic(message, remedy));
}

}  // namespace

/// Measured figures belong to the suite's own kernel.
void SuiteEvaluator::State::add_measured(const SuiteProblem& problem, const Problem& ours,
                                         const std::string& normalised_hash,
                                         EvaluationReply& reply) const {
    if (!std::filesystem::is_regular_file(problem.kernel_path)) return;
    const auto own = nki::parse(read_file(problem.kernel_path));
    if (!own || nki::normalised_hash(*own) != normalised_hash) return;
    reply.measured = read_measured(
        data_root() + "/nkibench/measured/" + machine.name + "_baseline.csv", ours.id);
}

/// The suite's rule compares float32 tensors.
bool SuiteEvaluator::State::check_types(KernelRun& run) {
    for (const nki::TensorId id : run.program().outputs) {
        const nki::Tensor& tensor = run.program().tensors.at(static_cast<std::size_t>(id));
        if (tensor.dtype == nki::DType::kFloat32) continue;
        run.end(Outcome::kRejected, "output_type",
                "output '" + tensor.name + "' must be float32, not " +
                    std::string(to_string(tensor.dtype)));
        return false;
    }
    return true;
}

bool SuiteEvaluator::State::check_values(KernelRun& run, SuiteReference& reference,
                                         const std::vector<nki::Argument>& arguments,
                                         std::uint32_t seed, int label, double tolerance,
                                         EvaluationReply& reply) {
    if (const auto fault = reference.compute(seed, arguments)) {
        end(reply, "reference_failed", *fault, kReferenceRemedy);
        return false;
    }
    const auto outputs = run.execute(reference.inputs());
    if (!outputs) return false;
    const auto verdicts = reference.verify(*outputs, tolerance);
    if (!verdicts) {
        end(reply, "reference_failed", verdicts.error(), kReferenceRemedy);
        return false;
    }
    for (std::size_t i = 0; i < verdicts->size(); ++i) {
        const OutputVerdict& verdict = (*verdicts)[i];
        if (verdict.reason == "output_shape") {
            run.end(Outcome::kRejected, "output_shape", verdict.message);
            return false;
        }
        protocol::Correctness row;
        row.seed = label;
        row.output = static_cast<int>(i);
        row.rule = "published";
        row.rel_l2 = verdict.rel_l2;
        row.ok = verdict.ok;
        reply.correctness.push_back(row);
        if (verdict.ok) continue;
        run.end(Outcome::kIncorrect, verdict.reason,
                "output " + std::to_string(i) + " on seed " + std::to_string(label) + ": " +
                    verdict.message);
        return false;
    }
    return true;
}

std::optional<std::string> SuiteEvaluator::State::read(const std::string& path, const char* what,
                                                       EvaluationReply& reply) {
    if (std::filesystem::is_regular_file(path)) return read_file(path);
    end(reply, "bad_request", path + ": the " + what + " that summary.json names is missing",
        "complete the checkout, or correct summary.json");
    return std::nullopt;
}

/// The kernel as a kernel of ours: our inputs, stress sets and references at the full shape.
void SuiteEvaluator::State::run_conditioned(const SuiteProblem& problem, const Problem& ours,
                                            const SuiteRequest& request, EvaluationReply& reply) {
    protocol::EvaluationRequest own;
    own.id = request.id;
    own.problem = ours.id;
    own.target = target;
    own.source = request.source;
    own.entry = request.entry;
    own.rule = "conditioned";
    own.secret = request.secret;
    own.limits = request.limits;
    own.tiers = {"legality", "timing"};
    if (request.values) own.tiers.insert(own.tiers.end(), {"seed", "values", "stress"});
    if (!evaluator) evaluator.emplace(EvaluatorOptions{});
    reply = evaluator->evaluate(own);
    reply.problem = problem.id;
    const auto module = nki::parse(request.source);
    if (module) add_measured(problem, ours, nki::normalised_hash(*module), reply);
}

void SuiteEvaluator::State::run(const SuiteProblem& problem, const SuiteRequest& request,
                                EvaluationReply& reply) {
    if (!read(problem.reference_path, "reference", reply)) return;
    auto opened = SuiteReference::open(problem.reference_path);
    if (!opened) return end(reply, "reference_failed", opened.error(), kReferenceRemedy);
    SuiteReference& reference = **opened;
    const auto arguments = reference.kernel_arguments();
    if (!arguments) return end(reply, "reference_failed", arguments.error(), kReferenceRemedy);

    const auto ours = matching_problem(problem, *arguments);
    if (request.rule == "conditioned") {
        if (ours) return run_conditioned(problem, *ours, request, reply);
        return end(reply, "bad_request",
                   "rule conditioned needs a problem of ours, and none has the name '" +
                       problem.name + "' and the arguments of " + problem.reference_path,
                   "use the rule published");
    }
    KernelUnderTest kernel;
    kernel.source = request.source;
    kernel.entry = request.entry;
    kernel.arguments = *arguments;
    kernel.published_ban = true;
    kernel.limits = request.limits;
    kernel.profile_rows = request.profile_rows;
    kernel.observer = request.observer;
    KernelRun run(kernel, machine, reply);
    if (!run.check() || !check_types(run)) return;
    run.predict();
    if (ours) {
        add_peak_figures(*ours, machine, reply);
        add_measured(problem, *ours, run.normalised_hash(), reply);
    }
    const double tolerance = ours ? ours->tolerance : kPublishedTolerance;
    for (int k = 0; request.values && k < static_cast<int>(std::size(kPublishedSeeds)); ++k) {
        const bool published = request.seeds == SuiteSeeds::kPublished;
        const std::uint32_t seed =
            published ? kPublishedSeeds[k] : own_seed(request.secret, problem.name, k);
        // A derived seed stays secret: its index is shown.
        const int label = published ? static_cast<int>(seed) : k;
        if (!check_values(run, reference, *arguments, seed, label, tolerance, reply)) return;
    }
    reply.outcome = Outcome::kOk;
    reply.reason.clear();
    if (request.values) {
        add_note(reply, "rule_published",
                 "verified by the suite's rule, the L2 norm of each output: weaker than the "
                 "element-wise bound of our own problems");
    }
}

SuiteEvaluator::SuiteEvaluator(const std::string& target) : state_(std::make_unique<State>()) {
    state_->target = target;
    state_->machine = load_machine(target);
}
SuiteEvaluator::~SuiteEvaluator() = default;

EvaluationReply SuiteEvaluator::evaluate(const SuiteProblem& problem, const SuiteRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    EvaluationReply reply;
    reply.id = request.id;
    reply.problem = problem.id;
    reply.target = state_->machine.name;
    reply.source_sha256 = sha256_hex(request.source);
    reply.accelopt_version = kVersion;
    reply.machine = state_->machine.name + "@" + state_->machine.hash;
    reply.rule = request.rule;
    try {
        state_->run(problem, request, reply);
    } catch (const std::bad_alloc&) {
        end(reply, "out_of_memory", "the evaluator ran out of memory", "");
    } catch (const Error& error) {
        end(reply, error.code(), error.what(), "");
    } catch (const std::exception& error) {
        end(reply, "internal", error.what(), "");
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    reply.cost.wall_s = spent.count();
    return reply;
}

EvaluationReply SuiteEvaluator::evaluate_baseline(const SuiteProblem& problem,
                                                  SuiteRequest request) {
    EvaluationReply missing;
    missing.id = request.id;
    missing.problem = problem.id;
    missing.target = state_->machine.name;
    auto source = State::read(problem.kernel_path, "kernel", missing);
    if (!source) return missing;
    request.source = std::move(*source);
    return evaluate(problem, request);
}

}  // namespace accelopt::eval
