// How a worker gets verdicts on kernels: who evaluates one is the coordinator's decision.
#include <algorithm>
#include <utility>

#include "cluster/worker_state.h"

namespace accelopt::cluster {

using protocol::Sample;

/// Asks the coordinator who evaluates this kernel: every distinct text is evaluated once a run.
void Worker::State::claim(Task& task, int sample, const std::string& source) {
    const std::string key =
        context.evaluation_key(task.unit.problem, definitions.at(task.unit.problem), source);
    const bool first = !claims.contains(key);
    claims[key].push_back({&task, protocol::Role::kExecutor, sample});
    if (!first) return;
    claimed[key] = {task.unit.problem, source};
    tell(MessageType::kClaim, frame(key, ""));
}

void Worker::State::claim_answered(const std::string& payload) {
    const auto [key, body] = unframe(payload);
    if (!claims.contains(key)) return;
    if (!body.empty()) {
        auto reply = protocol::parse_evaluation_reply(body);
        require(reply.ok(), "coordinator sent a malformed verdict");
        deliver(key, *reply, true);
        return;
    }
    auto request = evaluation_request(claimed.at(key).problem, claimed.at(key).source);
    request.id = key;
    // Two executions that must agree: always where everything starts from, else as configured.
    const auto& waiting = claims.at(key);
    const bool baseline = std::any_of(waiting.begin(), waiting.end(),
                                      [](const auto& claim) { return claim.sample < 0; });
    if (baseline || context.config.verify_order) request.tiers.push_back("order");
    pool->submit(std::move(request));
}

protocol::EvaluationRequest Worker::State::evaluation_request(const std::string& problem,
                                                              const std::string& source) const {
    const auto& config = context.config;
    protocol::EvaluationRequest request;
    request.problem = problem;
    request.target = config.target;
    request.source = source;
    request.rule = config.verify_rule;
    request.seeds = config.verify_seeds;
    if (config.verify_published_seeds) request.seed_rule = "published";
    // Every kernel gets every tier of the configuration, each ending at its first finding: what is
    // wrong shows on the first input set as a rule, and nothing that has not passed all of them can
    // enter a beam.
    request.tiers = config.verify_tiers;
    if (config.verify_stress) request.tiers.push_back("stress");
    request.secret = context.secret();
    request.shape = config.shape;
    request.limits.wall_s = config.evaluator_timeout_s;
    request.limits.memory_bytes = static_cast<std::int64_t>(config.evaluator_memory_gib * 1e9);
    return request;
}

void Worker::State::evaluated(const protocol::EvaluationReply& reply) {
    const std::string framed = frame(reply.id, protocol::to_json(reply));
    if (reply.outcome != protocol::Outcome::kEvaluatorError) {
        journal->append(store::RecordType::kEvaluation, framed);
    }
    tell(MessageType::kEvaluated, framed);
    deliver(reply.id, reply, false);
}

void Worker::State::deliver(const std::string& key, const protocol::EvaluationReply& reply,
                            bool shared) {
    const auto waiting = std::exchange(claims[key], {});
    claims.erase(key);
    claimed.erase(key);
    bool own = !shared;
    for (const auto& [task, role, index] : waiting) {
        // One of its samples may have ended the unit meanwhile.
        if (!is_open(task)) continue;
        if (own) ++task->result.physical_evaluations;
        if (index < 0) {
            task->result.baseline = reply;
            finish(*task);
        } else {
            Sample& sample = task->result.samples[static_cast<std::size_t>(index)];
            sample.evaluation = reply;
            sample.shared_evaluation = !own;
            within_unit(*task, [this, task = task, &sample] {
                if (!repair(*task, sample)) close_sample(*task);
            });
        }
        own = false;
    }
}

bool Worker::State::is_open(const Task* task) const {
    return std::any_of(tasks.begin(), tasks.end(), [&](const Task& t) { return &t == task; });
}

}  // namespace accelopt::cluster
