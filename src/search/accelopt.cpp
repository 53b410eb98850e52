#include "search/accelopt.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/hash.h"

namespace accelopt::search {

using protocol::Candidate;
using protocol::Experience;
using protocol::Sample;
using protocol::SampleStatus;
using protocol::Unit;

namespace {

double latency_of(const Sample& sample) { return *sample.evaluation->profile->latency; }

/// True when the executor delivered a kernel at all; the published scripts skip the others.
bool has_implementation(const Sample& sample) {
    return sample.status != SampleStatus::kExtractionFailed &&
           sample.status != SampleStatus::kLlmFailed;
}

/// The sample with the lowest latency among the verified ones; nullptr when there is none.
const Sample* fastest(const std::vector<Sample>& samples) {
    const Sample* best = nullptr;
    for (const auto& sample : samples) {
        if (verified(sample) && (!best || latency_of(sample) < latency_of(*best))) best = &sample;
    }
    return best;
}

const Sample* slowest(const std::vector<Sample>& samples) {
    const Sample* worst = nullptr;
    for (const auto& sample : samples) {
        if (verified(sample) && (!worst || latency_of(sample) > latency_of(*worst))) {
            worst = &sample;
        }
    }
    return worst;
}

double uncertainty_of(const std::optional<protocol::Profile>& profile) {
    return profile ? profile->latency_uncertainty.value_or(0) : 0;
}

/// The model's own error between two kernels, as a fraction; 0 where ties are not asked for.
double tie_margin(const CampaignOptions& options, const std::optional<protocol::Profile>& a,
                  const std::optional<protocol::Profile>& b) {
    if (options.tie != "uncertainty") return 0;
    return std::max(uncertainty_of(a), uncertainty_of(b));
}

/// Among kernels that the model cannot tell from the fastest of them, the surest prediction comes
/// first: `pool` is sorted by latency and cut into such groups from the front.
void order_ties(const CampaignOptions& options, std::vector<Candidate>& pool) {
    if (options.tie != "uncertainty") return;
    for (auto first = pool.begin(); first != pool.end();) {
        auto last = std::next(first);
        while (last != pool.end() &&
               last->latency_ms <=
                   first->latency_ms * (1 + tie_margin(options, first->profile, last->profile))) {
            ++last;
        }
        std::stable_sort(first, last, [](const Candidate& a, const Candidate& b) {
            return uncertainty_of(a.profile) < uncertainty_of(b.profile);
        });
        first = last;
    }
}

std::vector<Candidate> keep_fastest(const CampaignOptions& options, std::vector<Candidate> pool) {
    std::stable_sort(pool.begin(), pool.end(), [](const Candidate& a, const Candidate& b) {
        return a.latency_ms < b.latency_ms;
    });
    order_ties(options, pool);
    const int beam = options.beam;
    std::vector<Candidate> kept;
    std::set<std::string> hashes;
    for (auto& candidate : pool) {
        if (static_cast<int>(kept.size()) == beam) break;
        if (hashes.insert(candidate.source_hash).second) kept.push_back(std::move(candidate));
    }
    return kept;
}

struct RankedPair {
    double speedup = 1;
    Experience experience;
};

Experience pair_of(const Unit& unit, const Sample& sample, bool positive, int round) {
    Experience e;
    e.problem = unit.problem;
    e.round = round;
    e.positive = positive;
    e.speedup = std::max(*sample.speedup, 1.0 / *sample.speedup);
    e.slow_source = positive ? unit.candidate.source : sample.source;
    e.fast_source = positive ? sample.source : unit.candidate.source;
    e.id = sha256_hex("experience/" + e.problem + "/" + std::to_string(round) + "/" +
                      sha256_hex(e.slow_source) + sha256_hex(e.fast_source))
               .substr(0, 16);
    return e;
}

}  // namespace

bool verified(const Sample& sample) {
    return (sample.status == SampleStatus::kEvaluated ||
            sample.status == SampleStatus::kDuplicate) &&
           sample.evaluation && sample.evaluation->verified() && sample.evaluation->profile &&
           sample.evaluation->profile->latency && sample.speedup;
}

Candidate candidate_of(const Unit& unit, const Sample& sample) {
    Candidate c;
    c.id = Sample::candidate_id(unit, sample.index);
    c.problem = unit.problem;
    c.parent_id = unit.candidate.id;
    c.round = unit.round;
    c.plan = unit.plan;
    c.sample = sample.index;
    c.source = sample.source;
    c.source_hash = sample.source_hash;
    c.latency_ms = latency_of(sample);
    c.profile = sample.evaluation->profile;
    return c;
}

std::vector<Candidate> select_candidates(const CampaignOptions& options,
                                         const std::vector<Candidate>& beam,
                                         const RoundOutcome& round) {
    const bool paper = options.variant == "paper";
    std::vector<Candidate> pool;
    for (std::size_t i = 0; i < round.units.size(); ++i) {
        const Unit& unit = round.units[i];
        const auto& samples = round.results[i].samples;
        if (paper) {
            for (const auto& sample : samples) {
                if (verified(sample)) pool.push_back(candidate_of(unit, sample));
            }
            continue;
        }
        if (const Sample* best = fastest(samples)) {
            pool.push_back(candidate_of(unit, *best));
        } else if (std::any_of(samples.begin(), samples.end(), has_implementation)) {
            pool.push_back(unit.candidate);
        }
    }
    if (paper || options.elitist) pool.insert(pool.end(), beam.begin(), beam.end());
    if (pool.empty()) return beam;
    return keep_fastest(options, std::move(pool));
}

std::vector<Experience> select_pairs(const CampaignOptions& options, int round,
                                     const RoundOutcome& outcome) {
    std::vector<RankedPair> positives;
    std::vector<RankedPair> negatives;
    const double negative_limit = 1.0 / options.negative_threshold;
    for (std::size_t i = 0; i < outcome.units.size(); ++i) {
        const Unit& unit = outcome.units[i];
        const Sample* best = fastest(outcome.results[i].samples);
        if (!best) continue;
        const double best_speedup = *best->speedup;
        // A difference that may be the model's own error teaches nothing.
        const auto tie_limit = [&](const Sample& sample) {
            return 1 + tie_margin(options, unit.candidate.profile, sample.evaluation->profile);
        };
        if (best_speedup > 1) {
            if (best_speedup > std::max(options.positive_threshold, tie_limit(*best))) {
                positives.push_back({best_speedup, pair_of(unit, *best, true, round)});
            }
            continue;
        }
        if (best_speedup == 1) continue;
        // All samples of the group are slower than their parent. The published program tests the
        // slowest one, the paper's algorithm the fastest.
        const Sample* kept =
            options.variant == "paper" ? best : slowest(outcome.results[i].samples);
        if (*kept->speedup < std::min(negative_limit, 1 / tie_limit(*kept))) {
            negatives.push_back({*kept->speedup, pair_of(unit, *kept, false, round)});
        }
    }
    std::stable_sort(positives.begin(), positives.end(),
                     [](const auto& a, const auto& b) { return a.speedup > b.speedup; });
    std::stable_sort(negatives.begin(), negatives.end(),
                     [](const auto& a, const auto& b) { return a.speedup < b.speedup; });
    std::vector<Experience> pairs;
    std::set<std::string> seen;
    const auto take = [&](std::vector<RankedPair>& ranked, int limit) {
        for (auto& pair : ranked) {
            if (static_cast<int>(pairs.size()) >= limit) return;
            if (seen.insert(pair.experience.id).second) pairs.push_back(pair.experience);
        }
    };
    take(positives, options.top_k / 2);
    take(negatives, options.top_k);
    return pairs;
}

std::vector<Experience> update_memory(const CampaignOptions& options,
                                      const std::vector<Experience>& memory,
                                      std::vector<Experience> items, RandomStream stream) {
    std::erase_if(items, [](const Experience& item) { return item.title.empty(); });
    const auto capacity = static_cast<std::size_t>(options.capacity);
    if (options.variant == "paper") {
        std::vector<Experience> queue = memory;
        queue.insert(queue.end(), items.begin(), items.end());
        if (queue.size() > capacity) {
            queue.erase(queue.begin(), queue.end() - static_cast<std::ptrdiff_t>(capacity));
        }
        return queue;
    }
    if (items.size() > capacity) items.resize(capacity);
    const std::size_t room = std::min(capacity - items.size(), memory.size());
    const auto order = stream.permutation(memory.size());
    for (std::size_t i = 0; i < room; ++i) items.push_back(memory[order[i]]);
    return items;
}

}  // namespace accelopt::search
