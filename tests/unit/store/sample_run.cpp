#include "unit/store/sample_run.h"

#include "store/journal.h"

namespace accelopt::store::testing {

using namespace protocol;

namespace {

std::string candidate_id(const std::string& unit, int sample) {
    Unit identity;
    identity.id = unit;
    return Sample::candidate_id(identity, sample);
}

Sample evaluated(int index, const std::string& source, EvaluationReply reply) {
    Sample sample;
    sample.index = index;
    sample.status = SampleStatus::kEvaluated;
    sample.reply = "Here is the kernel:\n" + source;
    sample.source = source;
    sample.source_hash = "hash of " + source;
    sample.evaluation = std::move(reply);
    return sample;
}

Sample without_kernel(int index, SampleStatus status, LlmOutcome outcome) {
    Sample sample;
    sample.index = index;
    sample.status = status;
    sample.llm_outcome = outcome;
    return sample;
}

UnitResult baseline(const std::string& problem, double latency_ms) {
    UnitResult unit;
    unit.unit_id = problem + "-base";
    unit.problem = problem;
    unit.kind = UnitKind::kBaseline;
    unit.baseline = reply_with(problem, Outcome::kOk, "", latency_ms);
    unit.physical_evaluations = 1;
    return unit;
}

UnitResult rewrite(const std::string& problem, int round, int order, std::vector<Sample> samples,
                   const std::string& parent) {
    UnitResult unit;
    unit.unit_id = problem + "-r" + std::to_string(round) + "-" + std::to_string(order);
    unit.problem = problem;
    unit.kind = UnitKind::kRewrite;
    unit.round = round;
    unit.order = order;
    unit.parent_id = parent;
    unit.plan = order;
    unit.plan_text = "widen the tile of step " + std::to_string(order);
    unit.ledger.push_back(ledger_row(unit.unit_id, Role::kPlanner, 0, 0.25));
    for (const auto& sample : samples) {
        unit.ledger.push_back(ledger_row(unit.unit_id, Role::kExecutor, sample.index, 0.5));
    }
    unit.samples = std::move(samples);
    return unit;
}

Candidate baseline_candidate(const std::string& problem, double latency_ms) {
    Candidate candidate;
    candidate.id = problem + "-base";
    candidate.problem = problem;
    candidate.source = "def kernel(x):\n    return " + problem + "(x)\n";
    candidate.source_hash = "hash of baseline";
    candidate.latency_ms = latency_ms;
    return candidate;
}

Candidate selected(const UnitResult& unit, int sample, const std::string& parent, int plan) {
    Candidate candidate;
    candidate.id = candidate_id(unit.unit_id, sample);
    candidate.problem = unit.problem;
    candidate.parent_id = parent;
    candidate.round = unit.round;
    candidate.plan = plan;
    candidate.sample = sample;
    const Sample& made = unit.samples[static_cast<std::size_t>(sample)];
    candidate.source = made.source;
    candidate.source_hash = made.source_hash;
    candidate.latency_ms = *made.evaluation->profile->latency;
    candidate.profile = made.evaluation->profile;
    return candidate;
}

Experience experience(const std::string& problem, int round) {
    Experience item;
    item.id = problem + "-lesson-" + std::to_string(round);
    item.problem = problem;
    item.round = round;
    item.title = "Wider tiles";
    item.text = "Widen the free dimension until SBUF is full.";
    item.speedup = 1.25;
    item.slow_source = "slow";
    item.fast_source = "fast";
    return item;
}

void add_silu(RunData& run) {
    const std::string line = "def kernel(x):\n    return ";
    const Candidate start = baseline_candidate("silu", 2.0);
    run.units.push_back(baseline("silu", 2.0));
    auto first = rewrite(
        "silu", 0, 0,
        {evaluated(0, line + "fused(x)\n", reply_with("silu", Outcome::kOk, "", 1.5)),
         evaluated(1, line + "wrong(x)\n", reply_with("silu", Outcome::kIncorrect, "value", 0.5))},
        start.id);
    auto second =
        rewrite("silu", 0, 1,
                {evaluated(0, line + "fused(x)\n", reply_with("silu", Outcome::kOk, "", 1.5)),
                 without_kernel(1, SampleStatus::kLlmFailed, LlmOutcome::kRateLimited)},
                start.id);
    run.units.push_back(first);
    run.units.push_back(second);
    second.samples[0].status = SampleStatus::kDuplicate;
    second.samples[0].duplicate_of = candidate_id(first.unit_id, 0);
    RoundRow round0;
    round0.problem = "silu";
    round0.round = 0;
    round0.baseline = start;
    round0.selected = {selected(first, 0, start.id, 0)};
    round0.rewrites = {first, second};
    round0.memory = {experience("silu", 0)};
    UnitResult lesson;
    lesson.unit_id = "silu-s0";
    lesson.problem = "silu";
    lesson.kind = UnitKind::kSummarize;
    lesson.experience = round0.memory[0];
    lesson.ledger.push_back(ledger_row("silu-s0", Role::kSummarizer, 0, 0.125));
    run.units.push_back(lesson);

    auto third = rewrite("silu", 1, 0,
                         {without_kernel(0, SampleStatus::kExtractionFailed, LlmOutcome::kOk),
                          without_kernel(1, SampleStatus::kNoChange, LlmOutcome::kOk)},
                         round0.selected[0].id);
    auto fourth =
        rewrite("silu", 1, 1,
                {evaluated(0, line + "tiled(x)\n", reply_with("silu", Outcome::kOk, "", 1.0)),
                 evaluated(1, line + "rejected(x)\n",
                           reply_with("silu", Outcome::kRejected, "sbuf_capacity", 0))},
                round0.selected[0].id);
    fourth.samples[1].evaluation->profile.reset();
    run.units.push_back(third);
    run.units.push_back(fourth);
    RoundRow round1;
    round1.problem = "silu";
    round1.round = 1;
    round1.baseline = start;
    round1.selected = {selected(fourth, 0, round0.selected[0].id, 1)};
    round1.rewrites = {third, fourth};
    round1.memory = round0.memory;
    run.rounds.push_back(round0);
    run.rounds.push_back(round1);
}

void add_adamw(RunData& run) {
    const Candidate start = baseline_candidate("adamw", 4.0);
    run.units.push_back(baseline("adamw", 4.0));
    const auto only = rewrite(
        "adamw", 0, 0,
        {evaluated(0, "def kernel(x):\n    pass\n", reply_with("adamw", Outcome::kOk, "", 4.5))},
        start.id);
    run.units.push_back(only);
    RoundRow round;
    round.problem = "adamw";
    round.round = 0;
    round.baseline = start;
    round.selected = {start};
    round.rewrites = {only};
    run.rounds.push_back(round);
}

}  // namespace

EvaluationReply reply_with(const std::string& problem, Outcome outcome, const std::string& reason,
                           double latency_ms) {
    EvaluationReply reply;
    reply.problem = problem;
    reply.target = "trn1";
    reply.outcome = outcome;
    reply.reason = reason;
    reply.tier = "values";
    reply.source_sha256 = "abc";
    reply.machine = "trn1@1234";
    reply.accelopt_version = "0.1.0";
    reply.correctness.push_back({0, "nominal", 0, "published", 1e-7, std::nullopt, true});
    Profile profile;
    profile.latency = latency_ms;
    profile.hbm_read_bytes = 117440512;
    profile.percent_of_peak = 0.5 / latency_ms;
    profile.bound = "DMA";
    profile.confidence = "high";
    ProfileDetail detail;
    detail.lines = {{3, "nisa.nc_matmul", 12, latency_ms / 2}, {0, "start-up", 0, latency_ms / 4}};
    detail.lines_left_out = 5;
    detail.critical_path = {{3, "nisa.nc_matmul", "PE", "end", 7, latency_ms / 2}};
    detail.critical_left_out_ms = latency_ms / 4;
    detail.tensors = {{"x", "input", 2, 4096, 8192, 0, 2.0}, {"y", "output", 4, 4096, 0, 4096, {}}};
    detail.sbuf = Occupancy{196608, 4096, 1024.0, latency_ms / 2, {512.0, 1536.0}};
    profile.detail = detail;
    reply.profile = profile;
    if (outcome != Outcome::kOk) {
        Diagnostic diagnostic;
        diagnostic.code = reason;
        diagnostic.message = "not as wanted";
        diagnostic.line = 2;
        reply.diagnostics.push_back(diagnostic);
    }
    return reply;
}

LedgerRow ledger_row(const std::string& unit, Role role, int sample,
                     std::optional<double> cost_usd) {
    LedgerRow row;
    row.unit_id = unit;
    row.role = role;
    row.sample = sample;
    row.model = "small";
    row.provider = "openai";
    row.model_name = "example/small";
    row.request_sha256 = "r" + unit;
    row.http_status = 200;
    row.usage.input_tokens = 1000;
    row.usage.output_tokens = 200;
    row.cost_usd = cost_usd;
    row.latency_s = 1.5;
    return row;
}

RunData sample_run() {
    RunData run;
    run.version = "0.1.0";
    run.launches = 1;
    run.exit_code = 0;
    add_adamw(run);
    add_silu(run);
    for (const auto& unit : run.units) {
        run.ledger.insert(run.ledger.end(), unit.ledger.begin(), unit.ledger.end());
    }
    run.events.push_back({1000.5, "note", "a calm day"});
    return run;
}

void journal_run(const RunData& run, const std::string& directory) {
    JournalWriter writer(directory + "/journal", 0, 0);
    writer.append(RecordType::kLaunch, R"({"version": "0.1.0", "rank": 0, "unix_s": 1000.0})");
    for (const auto& row : run.ledger) writer.append(RecordType::kLlmTry, to_json(row));
    for (const auto& unit : run.units) writer.append(RecordType::kUnitResult, to_json(unit));
    for (const auto& round : run.rounds) writer.append(RecordType::kRound, to_json(round));
    writer.append(RecordType::kEvent,
                  R"({"unix_s": 1000.5, "kind": "note", "text": "a calm day"})");
    if (run.exit_code) {
        writer.append(RecordType::kRunEnd,
                      "{\"exit_code\": " + std::to_string(*run.exit_code) + "}");
    }
}

}  // namespace accelopt::store::testing
