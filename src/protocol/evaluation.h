#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "protocol/diagnostic.h"
#include "protocol/outcome.h"
#include "protocol/profile.h"

namespace accelopt::protocol {

inline constexpr int kSchemaVersion = 1;
/// Rows that each list of a profile has when nothing else is asked for.
inline constexpr int kProfileRows = 8;

/// Budgets of one evaluation. Steps and memory decide the verdict; the wall clock only kills.
struct EvaluationLimits {
    std::int64_t steps = 200'000'000;
    std::int64_t memory_bytes = 8'000'000'000;
    double wall_s = 180;
};

/// One evaluator request, one JSON line (design.md, Evaluator protocol).
struct EvaluationRequest {
    std::string id;
    std::string problem;  ///< problem id, or a path to a problem folder
    std::string target = "trn1";
    std::string source;                ///< kernel text
    std::optional<std::string> entry;  ///< kernel function name; nullopt = found by rule
    /// "conditioned" or "published"; a problem without a scale is judged by "published".
    std::string rule = "conditioned";
    std::vector<int> seeds = {0, 1, 2, 3, 4};  ///< indices k, not the seeds themselves
    /// "secret": seed k derives from `secret`; "published": `seeds` are NKIBench's own seeds.
    std::string seed_rule = "secret";
    std::string secret;  ///< run secret that the input seeds derive from
    /// Of legality, timing, seed (the first input set alone), values (all input sets), stress.
    std::vector<std::string> tiers = {"legality", "timing", "values", "stress"};
    std::string shape = "full";  ///< "full" or "test": problem.yaml's shape / test_shape
    /// Rows of each list of the predicted profile: 0 leaves the lists out, -1 gives all.
    int profile_rows = kProfileRows;
    EvaluationLimits limits;
};

/// Correctness of one output on one seed.
struct Correctness {
    int seed = 0;
    std::string input = "nominal";
    int output = 0;
    std::string rule;
    std::optional<double> rel_l2;
    std::optional<double> max_conditioned;
    bool ok = false;
};

struct EvaluationCost {
    double wall_s = 0;
    std::int64_t steps = 0;
    /// Seconds by part: "parse", "trace", "legality", "timing", "task", "reference", "values",
    /// "verify", "diagnosis"; and, over the same time, by tier: "tier_legality", ...
    std::vector<std::pair<std::string, double>> parts;
};

/// One evaluator reply, one JSON line.
struct EvaluationReply {
    std::string id;
    std::string problem;
    std::string target;
    std::string source_sha256;
    Outcome outcome = Outcome::kEvaluatorError;
    std::string reason;  ///< "" = null; see the frozen table
    std::string tier;    ///< the last tier that was reached
    std::string rule;    ///< the rule that judged the values; "" when no rule was reached
    std::vector<Diagnostic> diagnostics;
    std::vector<Correctness> correctness;
    std::optional<Profile> profile;  ///< present whenever the timing tier ran
    std::optional<Profile> as_written;
    std::optional<Profile> measured;
    EvaluationCost cost;
    std::string accelopt_version;
    std::string machine;  ///< "trn1@<hash of the machine description>"

    /// True when the kernel is right on every input asked for: all seeds, and the stress sets
    /// where the request had that tier.
    bool verified() const {
        const bool compared =
            tier == "values" || tier == "stress" || (tier == "order" && !correctness.empty());
        return outcome == Outcome::kOk && compared;
    }
};

/// JSON of one line without a newline. NaN and infinities become null.
std::string to_json(const EvaluationRequest& request);
std::string to_json(const EvaluationReply& reply);
std::string to_json(const Profile& profile);
std::string to_json(const Diagnostic& diagnostic);

/// Parse one line; the error is a sentence naming the member and what was expected.
Result<EvaluationRequest, std::string> parse_evaluation_request(std::string_view line);
Result<EvaluationReply, std::string> parse_evaluation_reply(std::string_view line);

}  // namespace accelopt::protocol
