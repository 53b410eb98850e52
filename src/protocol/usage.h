#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/outcome.h"

namespace accelopt::protocol {

/// Who speaks in the search.
enum class Role { kPlanner, kExecutor, kSummarizer, kFixer };

std::string_view to_string(Role role);
std::optional<Role> parse_role(std::string_view text);

/// Canonical usage of one try: disjoint token classes, so that their sum is the total. A class the
/// server did not report is nullopt, never 0.
struct Usage {
    std::optional<std::int64_t> input_tokens;
    std::optional<std::int64_t> cached_input_tokens;
    std::optional<std::int64_t> cache_write_tokens;
    std::optional<std::int64_t> output_tokens;
    std::optional<std::int64_t> reasoning_tokens;
    std::string raw_json;  ///< the provider's own usage object, "" when absent

    bool missing() const { return !input_tokens && !output_tokens; }
};

/// One row of the ledger: one try (one HTTP request, or one call of a local model).
struct LedgerRow {
    std::string unit_id;
    std::string problem;    ///< "" = not told
    Role role = Role::kPlanner;
    int sample = 0;     ///< index among the unit's calls of this role
    int attempt = 0;    ///< 0 = first try
    std::string model;  ///< key of the configuration's `models`
    std::string provider;
    std::string model_name;  ///< what the endpoint calls it
    std::string request_sha256;
    LlmOutcome outcome = LlmOutcome::kOk;
    int http_status = 0;  ///< 0 = no HTTP answer
    Usage usage;
    std::optional<double> cost_usd;  ///< nullopt = price or usage unknown
    double latency_s = 0;
    std::string error;      ///< scrubbed message, "" when fine
    bool replayed = false;  ///< answered from a record: adds nothing to the spend
};

std::string to_json(const LedgerRow& row);
LedgerRow parse_ledger_row(std::string_view json);

}  // namespace accelopt::protocol
