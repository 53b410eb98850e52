#include "protocol/usage.h"

#include "protocol/json_fields.h"

namespace accelopt::protocol {

std::string_view to_string(Role role) {
    switch (role) {
        case Role::kPlanner:
            return "planner";
        case Role::kExecutor:
            return "executor";
        case Role::kSummarizer:
            return "summarizer";
        case Role::kFixer:
            return "fixer";
    }
    return "unknown";
}

std::optional<Role> parse_role(std::string_view text) {
    for (Role role : {Role::kPlanner, Role::kExecutor, Role::kSummarizer, Role::kFixer}) {
        if (to_string(role) == text) return role;
    }
    return std::nullopt;
}

Json json_of(const LedgerRow& row) {
    return Json{{"unit", row.unit_id},
                {"problem", row.problem},
                {"role", to_string(row.role)},
                {"sample", row.sample},
                {"attempt", row.attempt},
                {"model", row.model},
                {"provider", row.provider},
                {"model_name", row.model_name},
                {"request_sha256", row.request_sha256},
                {"outcome", to_string(row.outcome)},
                {"http_status", row.http_status},
                {"input_tokens", number(row.usage.input_tokens)},
                {"cached_input_tokens", number(row.usage.cached_input_tokens)},
                {"cache_write_tokens", number(row.usage.cache_write_tokens)},
                {"output_tokens", number(row.usage.output_tokens)},
                {"reasoning_tokens", number(row.usage.reasoning_tokens)},
                {"raw_usage", row.usage.raw_json},
                {"cost_usd", number(row.cost_usd)},
                {"latency_s", row.latency_s},
                {"error", row.error},
                {"replayed", row.replayed}};
}

LedgerRow ledger_from(const Json& json) {
    LedgerRow row;
    read(json, "unit", row.unit_id);
    read(json, "problem", row.problem);
    read_enum(json, "role", row.role, parse_role);
    read(json, "sample", row.sample);
    read(json, "attempt", row.attempt);
    read(json, "model", row.model);
    read(json, "provider", row.provider);
    read(json, "model_name", row.model_name);
    read(json, "request_sha256", row.request_sha256);
    read_enum(json, "outcome", row.outcome, parse_llm_outcome);
    read(json, "http_status", row.http_status);
    read(json, "input_tokens", row.usage.input_tokens);
    read(json, "cached_input_tokens", row.usage.cached_input_tokens);
    read(json, "cache_write_tokens", row.usage.cache_write_tokens);
    read(json, "output_tokens", row.usage.output_tokens);
    read(json, "reasoning_tokens", row.usage.reasoning_tokens);
    read(json, "raw_usage", row.usage.raw_json);
    read(json, "cost_usd", row.cost_usd);
    read(json, "latency_s", row.latency_s);
    read(json, "error", row.error);
    read(json, "replayed", row.replayed);
    return row;
}

std::string to_json(const LedgerRow& row) { return dump(json_of(row)); }
LedgerRow parse_ledger_row(std::string_view json) { return ledger_from(parse_object(json)); }

}  // namespace accelopt::protocol
