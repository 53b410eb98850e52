#include "search/campaign.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"
#include "search/accelopt.h"

namespace accelopt::search {

using protocol::Candidate;
using protocol::Experience;
using protocol::Sample;
using protocol::SampleStatus;
using protocol::Unit;
using protocol::UnitKind;
using protocol::UnitResult;

namespace {

/// Where a problem stands: each step is a barrier for its own units.
enum class Step {
    kBaseline,
    kBaselineDone,
    kRewrite,
    kRewriteDone,
    kSummarize,
    kSummarizeDone,
    kEnd
};

std::string short_hash(const std::string& text) { return sha256_hex(text).substr(0, 16); }

/// A failure that is not the kernel's or the model's fault.
bool is_infrastructure(protocol::LlmOutcome outcome) {
    using protocol::LlmOutcome;
    switch (outcome) {
        case LlmOutcome::kRateLimited:
        case LlmOutcome::kQuotaExhausted:
        case LlmOutcome::kOverloaded:
        case LlmOutcome::kServerError:
        case LlmOutcome::kAuth:
        case LlmOutcome::kTimeout:
            return true;
        case LlmOutcome::kOk:
        case LlmOutcome::kTruncatedStream:
        case LlmOutcome::kLength:
        case LlmOutcome::kReasoningExhausted:
        case LlmOutcome::kRefused:
        case LlmOutcome::kFiltered:
        case LlmOutcome::kMalformed:
        case LlmOutcome::kEmpty:
        case LlmOutcome::kContextOverflow:
        case LlmOutcome::kCancelled:
        case LlmOutcome::kBudget:
            return false;
    }
    return false;
}

bool failed_by_infrastructure(const UnitResult& result) {
    if (!result.failure.empty() || is_infrastructure(result.plan_outcome)) return true;
    return std::any_of(result.samples.begin(), result.samples.end(), [](const Sample& s) {
        return is_infrastructure(s.llm_outcome) ||
               (s.evaluation && s.evaluation->outcome == protocol::Outcome::kEvaluatorError);
    });
}

}  // namespace

struct Campaign::State {
    struct Search {
        ProblemStart start;
        Step step = Step::kBaseline;
        std::vector<Unit> units;                    ///< of the current step
        std::map<std::string, UnitResult> results;  ///< by unit id
        std::vector<Candidate> beam;
        std::vector<Experience> memory;
        RoundOutcome round;                           ///< of the current round, duplicates marked
        std::map<std::string, Sample> first_by_hash;  ///< evaluation of each distinct kernel
        std::map<std::string, std::string> id_by_hash;
    };

    CampaignOptions options;
    std::vector<Search> searches;
    std::vector<ProblemState> states;
    std::vector<Unit> ready;
    std::vector<RoundRecord> finished_rounds;
    std::vector<Experience> shared_memory;

    std::size_t index_of(const std::string& problem) const {
        for (std::size_t i = 0; i < searches.size(); ++i) {
            if (searches[i].start.id == problem) return i;
        }
        throw Error(ErrorSource::kInternal, "campaign", "result of an unknown problem " + problem);
    }

    void hand_out(std::size_t i, Step step, std::vector<Unit> units) {
        Search& search = searches[i];
        search.step = step;
        search.results.clear();
        search.units = std::move(units);
        int order = 0;
        for (auto& unit : search.units) {
            unit.order = order++;
            unit.problem = search.start.id;
            unit.round = states[i].round;
        }
        ready.insert(ready.end(), search.units.begin(), search.units.end());
    }

    void start_baselines();
    void finish_baseline(std::size_t i);
    void start_round(std::size_t i);
    void mark_duplicates(std::size_t i);
    void finish_rewrites(std::size_t i);
    void finish_round(std::size_t i, std::vector<Experience> items);
    std::vector<Experience> learnt(const Search& search) const;
    void count(std::size_t i, const UnitResult& result);
    void step_finished(std::size_t i);
    bool all_at(Step step) const;
};

void Campaign::State::start_baselines() {
    for (std::size_t i = 0; i < searches.size(); ++i) {
        const auto& start = searches[i].start;
        Unit unit;
        unit.kind = UnitKind::kBaseline;
        unit.id = short_hash("baseline/" + start.id + "/" + sha256_hex(start.baseline_source));
        unit.candidate.id = unit.id;
        unit.candidate.problem = start.id;
        unit.candidate.source = start.baseline_source;
        unit.candidate.source_hash = start.baseline_hash;
        hand_out(i, Step::kBaseline, {unit});
    }
}

void Campaign::State::finish_baseline(std::size_t i) {
    Search& search = searches[i];
    ProblemState& state = states[i];
    search.step = Step::kBaselineDone;
    const UnitResult& result = search.results.at(search.units[0].id);
    Candidate candidate = search.units[0].candidate;
    ++state.logical_evaluations;
    if (!result.baseline || !result.baseline->verified() || !result.baseline->profile ||
        !result.baseline->profile->latency) {
        state.failed = true;
        state.finished = true;
        search.step = Step::kEnd;
        state.failure = "baseline: ";
        if (result.baseline) {
            state.failure += std::string(to_string(result.baseline->outcome));
            if (!result.baseline->reason.empty()) state.failure += "/" + result.baseline->reason;
            if (!result.baseline->diagnostics.empty()) {
                state.failure += ": " + result.baseline->diagnostics[0].message;
            }
        } else {
            state.failure += result.failure.empty() ? "no reply" : result.failure;
        }
        return;
    }
    candidate.latency_ms = *result.baseline->profile->latency;
    candidate.profile = result.baseline->profile;
    state.baseline = candidate;
    state.best = candidate;
    search.beam = {candidate};
    Sample original;
    original.status = SampleStatus::kEvaluated;
    original.evaluation = result.baseline;
    search.first_by_hash[candidate.source_hash] = original;
    search.id_by_hash[candidate.source_hash] = candidate.id;
}

void Campaign::State::start_round(std::size_t i) {
    Search& search = searches[i];
    const auto& memory = options.memory_scope == "campaign" ? shared_memory : search.memory;
    std::string memory_key;
    for (const auto& item : memory) memory_key += item.id + "/" + sha256_hex(item.text) + ";";
    std::vector<Unit> units;
    for (const auto& candidate : search.beam) {
        for (int plan = 0; plan < options.plans; ++plan) {
            Unit unit;
            unit.kind = UnitKind::kRewrite;
            unit.candidate = candidate;
            unit.plan = plan;
            unit.samples = options.samples;
            unit.experiences = memory;
            unit.id = short_hash("rewrite/" + search.start.id + "/" + std::to_string(options.seed) +
                                 "/" + std::to_string(states[i].round) + "/" + candidate.id + "/" +
                                 std::to_string(plan) + "/" + std::to_string(options.samples) +
                                 "/" + memory_key);
            units.push_back(std::move(unit));
        }
    }
    hand_out(i, Step::kRewrite, std::move(units));
}

void Campaign::State::mark_duplicates(std::size_t i) {
    Search& search = searches[i];
    ProblemState& state = states[i];
    for (std::size_t u = 0; u < search.round.units.size(); ++u) {
        const Unit& unit = search.round.units[u];
        for (auto& sample : search.round.results[u].samples) {
            if (sample.status != SampleStatus::kEvaluated) continue;
            const std::string hash = sample.source_hash.empty()
                                         ? "text:" + sha256_hex(sample.source)
                                         : sample.source_hash;
            const auto first = search.first_by_hash.find(hash);
            if (first == search.first_by_hash.end()) {
                search.first_by_hash[hash] = sample;
                search.id_by_hash[hash] = Sample::candidate_id(unit, sample.index);
                ++state.logical_evaluations;
            } else {
                sample.status = SampleStatus::kDuplicate;
                sample.duplicate_of = search.id_by_hash.at(hash);
                sample.evaluation = first->second.evaluation;
                ++state.duplicates;
            }
            const auto& evaluation = sample.evaluation;
            sample.speedup.reset();
            if (evaluation && evaluation->verified() && evaluation->profile &&
                evaluation->profile->latency && *evaluation->profile->latency > 0) {
                sample.speedup = unit.candidate.latency_ms / *evaluation->profile->latency;
            }
        }
    }
}

void Campaign::State::finish_rewrites(std::size_t i) {
    Search& search = searches[i];
    ProblemState& state = states[i];
    search.round = {};
    search.round.units = search.units;
    for (const auto& unit : search.units) {
        search.round.results.push_back(search.results.at(unit.id));
    }
    mark_duplicates(i);
    for (std::size_t u = 0; u < search.round.units.size(); ++u) {
        for (const auto& sample : search.round.results[u].samples) {
            ++state.samples;
            if (!verified(sample)) continue;
            Candidate candidate = candidate_of(search.round.units[u], sample);
            if (candidate.latency_ms < state.best.latency_ms) state.best = std::move(candidate);
        }
    }
    search.step = Step::kRewriteDone;
    std::vector<Unit> units;
    // The last round has nobody left to teach.
    if (state.round + 1 < options.rounds && options.top_k > 0 && options.capacity > 0) {
        for (auto& pair : select_pairs(options, state.round, search.round)) {
            Unit unit;
            unit.kind = UnitKind::kSummarize;
            unit.id = short_hash("summarize/" + search.start.id + "/" +
                                 std::to_string(options.seed) + "/" + pair.id);
            unit.experience = std::move(pair);
            units.push_back(std::move(unit));
        }
    }
    const bool none = units.empty();
    hand_out(i, Step::kSummarize, std::move(units));
    if (none) step_finished(i);
}

std::vector<Experience> Campaign::State::learnt(const Search& search) const {
    std::vector<Experience> items;
    for (const auto& unit : search.units) {
        if (unit.kind == UnitKind::kSummarize)
            items.push_back(search.results.at(unit.id).experience);
    }
    return items;
}

void Campaign::State::finish_round(std::size_t i, std::vector<Experience> items) {
    Search& search = searches[i];
    ProblemState& state = states[i];
    if (options.memory_scope == "problem") {
        search.memory = update_memory(
            options, search.memory, std::move(items),
            RandomStream::keyed(options.seed, "memory/" + search.start.id +
                                                  "/round=" + std::to_string(state.round)));
    }
    search.beam = select_candidates(options, search.beam, search.round);
    const auto& memory = options.memory_scope == "campaign" ? shared_memory : search.memory;
    finished_rounds.push_back(
        {search.start.id, state.round, search.beam, memory, search.round.results});
    ++state.round;
    if (state.round >= options.rounds) {
        search.step = Step::kEnd;
        state.finished = true;
    } else {
        start_round(i);
    }
}

bool Campaign::State::all_at(Step step) const {
    return std::all_of(searches.begin(), searches.end(),
                       [&](const Search& s) { return s.step == step || s.step == Step::kEnd; });
}

void Campaign::State::step_finished(std::size_t i) {
    switch (searches[i].step) {
        case Step::kBaseline: {
            finish_baseline(i);
            // Every baseline must stand before a single token is spent.
            if (!all_at(Step::kBaselineDone)) return;
            const bool broken =
                std::any_of(states.begin(), states.end(), [](const auto& s) { return s.failed; });
            for (std::size_t k = 0; k < searches.size(); ++k) {
                if (broken) {
                    searches[k].step = Step::kEnd;
                    states[k].finished = true;
                } else {
                    start_round(k);
                }
            }
            return;
        }
        case Step::kRewrite:
            finish_rewrites(i);
            return;
        case Step::kSummarize: {
            if (options.memory_scope == "problem") {
                finish_round(i, learnt(searches[i]));
                return;
            }
            searches[i].step = Step::kSummarizeDone;
            if (!all_at(Step::kSummarizeDone)) return;
            std::vector<Experience> items;
            int round = 0;
            for (std::size_t k = 0; k < searches.size(); ++k) {
                const auto more = learnt(searches[k]);
                items.insert(items.end(), more.begin(), more.end());
                round = std::max(round, states[k].round);
            }
            shared_memory = update_memory(
                options, shared_memory, std::move(items),
                RandomStream::keyed(options.seed, "memory/round=" + std::to_string(round)));
            for (std::size_t k = 0; k < searches.size(); ++k) {
                if (searches[k].step == Step::kSummarizeDone) finish_round(k, {});
            }
            return;
        }
        case Step::kBaselineDone:
        case Step::kRewriteDone:
        case Step::kSummarizeDone:
        case Step::kEnd:
            return;
    }
}

void Campaign::State::count(std::size_t i, const UnitResult& result) {
    if (failed_by_infrastructure(result)) ++states[i].failures;
}

Campaign::Campaign(CampaignOptions options, std::vector<ProblemStart> problems)
    : state_(std::make_unique<State>()) {
    if (options.strategy != "accelopt") {
        throw Error(ErrorSource::kConfig, "strategy",
                    "search.strategy: " + options.strategy + " is not available; use accelopt");
    }
    state_->options = std::move(options);
    for (auto& problem : problems) {
        ProblemState state;
        state.id = problem.id;
        state_->states.push_back(std::move(state));
        State::Search search;
        search.start = std::move(problem);
        state_->searches.push_back(std::move(search));
    }
    state_->start_baselines();
}

Campaign::~Campaign() = default;

std::vector<Unit> Campaign::take_ready() { return std::exchange(state_->ready, {}); }

void Campaign::complete(UnitResult result) {
    const std::size_t i = state_->index_of(result.problem);
    auto& search = state_->searches[i];
    const bool current = std::any_of(search.units.begin(), search.units.end(),
                                     [&](const Unit& u) { return u.id == result.unit_id; });
    if (!current || search.results.contains(result.unit_id)) return;
    if (search.step != Step::kBaseline && search.step != Step::kRewrite &&
        search.step != Step::kSummarize) {
        return;
    }
    state_->count(i, result);
    search.results.emplace(result.unit_id, std::move(result));
    if (search.results.size() == search.units.size()) state_->step_finished(i);
}

bool Campaign::finished() const {
    return std::all_of(state_->states.begin(), state_->states.end(),
                       [](const ProblemState& s) { return s.finished; });
}

const std::vector<ProblemState>& Campaign::problems() const { return state_->states; }

std::vector<RoundRecord> Campaign::take_finished_rounds() {
    return std::exchange(state_->finished_rounds, {});
}

}  // namespace accelopt::search
