#include "store/tables.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "store/candidates.h"
#include "store/profile_columns.h"
#include "store/profile_lists.h"

namespace accelopt::store {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

double or_nan(const std::optional<double>& value) {
    return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

std::string text_of(std::string_view text) { return std::string(text); }

/// Makes a column by applying `field` to every row.
template <typename Values, typename Row, typename Field>
void add_column(Table& table, const char* name, const std::vector<Row>& rows, Field field) {
    Values values;
    values.reserve(rows.size());
    for (const auto& row : rows) values.push_back(field(row));
    table.add(name, std::move(values));
}

std::int64_t count_ledger_calls(const protocol::UnitResult& unit) {
    std::set<std::pair<protocol::Role, int>> calls;
    for (const auto& row : unit.ledger) calls.emplace(row.role, row.sample);
    return static_cast<std::int64_t>(calls.size());
}

Table runs_table(const RunData& run) {
    Table table("runs");
    const std::vector<const RunData*> rows{&run};
    add_column<Texts>(table, "name", rows, [](const RunData* r) {
        auto folder = std::filesystem::path(r->directory).lexically_normal();
        if (folder.filename().empty()) folder = folder.parent_path();
        return folder.filename().string();
    });
    add_column<Texts>(table, "version", rows, [](const RunData* r) { return r->version; });
    add_column<Texts>(table, "config", rows, [](const RunData* r) { return r->resolved_config; });
    add_column<Integers>(table, "launches", rows, [](const RunData* r) { return r->launches; });
    add_column<Integers>(table, "exit_code", rows,
                         [](const RunData* r) { return r->exit_code.value_or(-1); });
    return table;
}

struct ProblemRow {
    std::string problem;
    const CandidateRow* baseline = nullptr;
    const CandidateRow* best = nullptr;
    std::int64_t evaluations = 0;
    std::int64_t samples = 0;
    std::int64_t rounds = 0;
};

std::vector<ProblemRow> problem_rows(const RunData& run,
                                     const std::vector<CandidateRow>& candidates) {
    std::vector<ProblemRow> rows;
    for (const auto& problem : problems_of(run)) {
        ProblemRow row;
        row.problem = problem;
        row.best = best_candidate(candidates, problem);
        for (const auto& candidate : candidates) {
            if (candidate.problem != problem) continue;
            if (candidate.is_baseline()) row.baseline = &candidate;
            if (!candidate.is_baseline()) ++row.samples;
            const bool counts = candidate.status == protocol::SampleStatus::kEvaluated;
            if (counts && candidate.evaluation != nullptr) ++row.evaluations;
        }
        for (const auto& round : run.rounds) row.rounds += round.problem == problem ? 1 : 0;
        rows.push_back(row);
    }
    return rows;
}

Table problems_table(const std::vector<ProblemRow>& rows) {
    const auto latency = [](const CandidateRow* row) {
        return or_nan(row ? row->latency_ms() : std::nullopt);
    };
    Table table("problems");
    add_column<Texts>(table, "problem", rows, [](const auto& r) { return r.problem; });
    add_column<Texts>(table, "baseline_outcome", rows, [](const auto& r) {
        if (r.baseline == nullptr || r.baseline->evaluation == nullptr) return std::string();
        return text_of(to_string(r.baseline->evaluation->outcome));
    });
    add_column<Numbers>(table, "baseline_latency_ms", rows,
                        [&](const auto& r) { return latency(r.baseline); });
    add_column<Numbers>(table, "best_latency_ms", rows,
                        [&](const auto& r) { return latency(r.best); });
    add_column<Numbers>(table, "speedup", rows,
                        [&](const auto& r) { return latency(r.baseline) / latency(r.best); });
    add_column<Texts>(table, "best_candidate", rows,
                      [](const auto& r) { return r.best ? r.best->id : std::string(); });
    add_column<Integers>(table, "evaluations", rows, [](const auto& r) { return r.evaluations; });
    add_column<Integers>(table, "samples", rows, [](const auto& r) { return r.samples; });
    add_column<Integers>(table, "rounds", rows, [](const auto& r) { return r.rounds; });
    return table;
}

Table units_table(const std::vector<protocol::UnitResult>& units) {
    Table table("units");
    add_column<Texts>(table, "unit", units, [](const auto& u) { return u.unit_id; });
    add_column<Texts>(table, "problem", units, [](const auto& u) { return u.problem; });
    add_column<Texts>(table, "kind", units,
                      [](const auto& u) { return text_of(to_string(u.kind)); });
    add_column<Integers>(table, "round", units, [](const auto& u) { return u.round; });
    add_column<Integers>(table, "order", units, [](const auto& u) { return u.order; });
    add_column<Texts>(table, "plan_outcome", units,
                      [](const auto& u) { return text_of(to_string(u.plan_outcome)); });
    add_column<Texts>(table, "plan_text", units, [](const auto& u) { return u.plan_text; });
    add_column<Integers>(table, "samples", units,
                         [](const auto& u) { return static_cast<std::int64_t>(u.samples.size()); });
    add_column<Integers>(table, "llm_calls", units, count_ledger_calls);
    add_column<Integers>(table, "physical_evaluations", units,
                         [](const auto& u) { return u.physical_evaluations; });
    add_column<Texts>(table, "failure", units, [](const auto& u) { return u.failure; });
    return table;
}

Table llm_calls_table(const std::vector<protocol::LedgerRow>& rows) {
    const auto tokens = [&](Table& table, const char* name, auto member) {
        add_column<Integers>(table, name, rows,
                             [member](const auto& r) { return (r.usage.*member).value_or(-1); });
    };
    Table table("llm_calls");
    add_column<Texts>(table, "unit", rows, [](const auto& r) { return r.unit_id; });
    add_column<Texts>(table, "role", rows,
                      [](const auto& r) { return text_of(to_string(r.role)); });
    add_column<Integers>(table, "sample", rows, [](const auto& r) { return r.sample; });
    add_column<Integers>(table, "attempt", rows, [](const auto& r) { return r.attempt; });
    add_column<Texts>(table, "model", rows, [](const auto& r) { return r.model; });
    add_column<Texts>(table, "provider", rows, [](const auto& r) { return r.provider; });
    add_column<Texts>(table, "model_name", rows, [](const auto& r) { return r.model_name; });
    add_column<Texts>(table, "request_sha256", rows,
                      [](const auto& r) { return r.request_sha256; });
    add_column<Texts>(table, "outcome", rows,
                      [](const auto& r) { return text_of(to_string(r.outcome)); });
    add_column<Integers>(table, "http_status", rows, [](const auto& r) { return r.http_status; });
    tokens(table, "input_tokens", &protocol::Usage::input_tokens);
    tokens(table, "cached_input_tokens", &protocol::Usage::cached_input_tokens);
    tokens(table, "cache_write_tokens", &protocol::Usage::cache_write_tokens);
    tokens(table, "output_tokens", &protocol::Usage::output_tokens);
    tokens(table, "reasoning_tokens", &protocol::Usage::reasoning_tokens);
    add_column<Texts>(table, "raw_usage", rows, [](const auto& r) { return r.usage.raw_json; });
    add_column<Numbers>(table, "cost_usd", rows, [](const auto& r) { return or_nan(r.cost_usd); });
    add_column<Numbers>(table, "latency_s", rows, [](const auto& r) { return r.latency_s; });
    add_column<Texts>(table, "error", rows, [](const auto& r) { return r.error; });
    add_column<Integers>(table, "replayed", rows, [](const auto& r) { return r.replayed ? 1 : 0; });
    return table;
}

Table candidates_table(const std::vector<CandidateRow>& rows) {
    const auto speedup = [](const CandidateRow& r) {
        if (r.made_by == nullptr || !r.made_by->speedup) return std::nan("");
        return *r.made_by->speedup;
    };
    Table table("candidates");
    add_column<Texts>(table, "candidate", rows, [](const auto& r) { return r.id; });
    add_column<Texts>(table, "problem", rows, [](const auto& r) { return r.problem; });
    add_column<Texts>(table, "parent", rows, [](const auto& r) { return r.parent_id; });
    add_column<Texts>(table, "unit", rows,
                      [](const auto& r) { return r.unit ? r.unit->unit_id : std::string(); });
    add_column<Integers>(table, "round", rows, [](const auto& r) { return r.round; });
    add_column<Integers>(table, "plan", rows, [](const auto& r) { return r.plan; });
    add_column<Integers>(table, "sample", rows, [](const auto& r) { return r.sample; });
    add_column<Texts>(table, "status", rows,
                      [](const auto& r) { return text_of(to_string(r.status)); });
    add_column<Texts>(table, "llm_outcome", rows, [](const auto& r) {
        return r.made_by ? text_of(to_string(r.made_by->llm_outcome)) : std::string();
    });
    add_column<Texts>(table, "duplicate_of", rows, [](const auto& r) {
        return r.made_by ? r.made_by->duplicate_of : std::string();
    });
    add_column<Integers>(table, "repairs", rows, [](const auto& r) {
        return r.made_by ? static_cast<std::int64_t>(r.made_by->repairs.size()) : 0;
    });
    add_column<Integers>(table, "verified", rows,
                         [](const auto& r) { return r.verified() ? 1 : 0; });
    add_column<Integers>(table, "selected", rows, [](const auto& r) { return r.selected ? 1 : 0; });
    add_column<Numbers>(table, "latency_ms", rows,
                        [](const auto& r) { return or_nan(r.latency_ms()); });
    add_column<Numbers>(table, "speedup", rows, speedup);
    add_column<Texts>(table, "source_hash", rows, [](const auto& r) { return r.source_hash; });
    add_column<Texts>(table, "source", rows, [](const auto& r) { return r.source; });
    add_column<Texts>(table, "reply", rows,
                      [](const auto& r) { return r.made_by ? r.made_by->reply : std::string(); });
    return table;
}

std::string diagnostics_json(const protocol::EvaluationReply& reply) {
    std::string text = "[";
    for (const auto& diagnostic : reply.diagnostics) {
        if (text.size() > 1) text += ',';
        text += protocol::to_json(diagnostic);
    }
    return text + "]";
}

double worst_rel_l2(const protocol::EvaluationReply& reply) {
    double worst = std::numeric_limits<double>::quiet_NaN();
    for (const auto& row : reply.correctness) {
        if (row.rel_l2) worst = std::fmax(worst, *row.rel_l2);
    }
    return worst;
}

Table evaluations_table(const std::vector<CandidateRow>& rows) {
    const auto reply = [](const CandidateRow& r) -> const auto& { return *r.evaluation; };
    Table table("evaluations");
    add_column<Texts>(table, "candidate", rows, [](const auto& r) { return r.id; });
    add_column<Texts>(table, "problem", rows, [](const auto& r) { return r.problem; });
    add_column<Texts>(table, "target", rows, [&](const auto& r) { return reply(r).target; });
    add_column<Texts>(table, "outcome", rows,
                      [&](const auto& r) { return text_of(to_string(reply(r).outcome)); });
    add_column<Texts>(table, "reason", rows, [&](const auto& r) { return reply(r).reason; });
    add_column<Texts>(table, "tier", rows, [&](const auto& r) { return reply(r).tier; });
    add_column<Texts>(table, "source_sha256", rows,
                      [&](const auto& r) { return reply(r).source_sha256; });
    add_column<Texts>(table, "diagnostics_json", rows,
                      [&](const auto& r) { return diagnostics_json(reply(r)); });
    add_column<Integers>(table, "checks", rows, [&](const auto& r) {
        return static_cast<std::int64_t>(reply(r).correctness.size());
    });
    add_column<Numbers>(table, "worst_rel_l2", rows,
                        [&](const auto& r) { return worst_rel_l2(reply(r)); });
    add_column<Integers>(table, "shared", rows, [](const auto& r) {
        return r.made_by != nullptr && r.made_by->shared_evaluation ? 1 : 0;
    });
    add_column<Integers>(table, "steps", rows, [&](const auto& r) { return reply(r).cost.steps; });
    add_column<Numbers>(table, "wall_s", rows, [&](const auto& r) { return reply(r).cost.wall_s; });
    add_column<Texts>(table, "machine", rows, [&](const auto& r) { return reply(r).machine; });
    add_column<Texts>(table, "version", rows,
                      [&](const auto& r) { return reply(r).accelopt_version; });
    return table;
}

std::vector<protocol::Experience> experience_rows(const RunData& run) {
    std::map<std::string, const protocol::Experience*> by_id;
    for (const auto& unit : run.units) {
        if (unit.kind == protocol::UnitKind::kSummarize && !unit.experience.title.empty()) {
            by_id.emplace(unit.experience.id, &unit.experience);
        }
    }
    for (const auto& round : run.rounds) {
        for (const auto& item : round.memory) by_id.emplace(item.id, &item);
    }
    std::vector<protocol::Experience> rows;
    for (const auto& [id, item] : by_id) rows.push_back(*item);
    return rows;
}

Table experience_table(const std::vector<protocol::Experience>& rows) {
    Table table("experience");
    add_column<Texts>(table, "experience", rows, [](const auto& e) { return e.id; });
    add_column<Texts>(table, "problem", rows, [](const auto& e) { return e.problem; });
    add_column<Integers>(table, "round", rows, [](const auto& e) { return e.round; });
    add_column<Numbers>(table, "speedup", rows, [](const auto& e) { return e.speedup; });
    add_column<Integers>(table, "positive", rows, [](const auto& e) { return e.positive ? 1 : 0; });
    add_column<Texts>(table, "title", rows, [](const auto& e) { return e.title; });
    add_column<Texts>(table, "text", rows, [](const auto& e) { return e.text; });
    add_column<Texts>(table, "slow_source", rows, [](const auto& e) { return e.slow_source; });
    add_column<Texts>(table, "fast_source", rows, [](const auto& e) { return e.fast_source; });
    return table;
}

struct MemoryRow {
    const RoundRow* round;
    std::int64_t position;
};

Table memory_table(const RunData& run) {
    std::vector<MemoryRow> rows;
    for (const auto& round : run.rounds) {
        for (std::size_t i = 0; i < round.memory.size(); ++i) {
            rows.push_back({&round, static_cast<std::int64_t>(i)});
        }
    }
    Table table("memory");
    add_column<Texts>(table, "problem", rows, [](const auto& r) { return r.round->problem; });
    add_column<Integers>(table, "round", rows, [](const auto& r) { return r.round->round; });
    add_column<Integers>(table, "position", rows, [](const auto& r) { return r.position; });
    add_column<Texts>(table, "experience", rows, [](const auto& r) {
        return r.round->memory[static_cast<std::size_t>(r.position)].id;
    });
    return table;
}

Table events_table(const std::vector<EventRow>& rows) {
    Table table("events");
    add_column<Numbers>(table, "unix_s", rows, [](const auto& e) { return e.unix_s; });
    add_column<Texts>(table, "kind", rows, [](const auto& e) { return e.kind; });
    add_column<Texts>(table, "text", rows, [](const auto& e) { return e.text; });
    return table;
}

}  // namespace

std::vector<Table> tables_of(const RunData& run) {
    const auto candidates = candidate_rows(run);
    std::vector<CandidateRow> evaluated;
    for (const auto& row : candidates) {
        // A duplicate carries the verdict of its original, which has a row of its own.
        const bool own = row.status == protocol::SampleStatus::kEvaluated;
        if (own && row.evaluation != nullptr) evaluated.push_back(row);
    }
    std::vector<Table> tables;
    tables.push_back(runs_table(run));
    tables.push_back(problems_table(problem_rows(run, candidates)));
    tables.push_back(units_table(run.units));
    tables.push_back(llm_calls_table(run.ledger));
    tables.push_back(candidates_table(candidates));
    tables.push_back(evaluations_table(evaluated));
    tables.push_back(profiles_table(evaluated));
    for (Table& list : profile_list_tables(profile_rows(evaluated)))
        tables.push_back(std::move(list));
    tables.push_back(experience_table(experience_rows(run)));
    tables.push_back(memory_table(run));
    tables.push_back(events_table(run.events));
    return tables;
}

}  // namespace accelopt::store
