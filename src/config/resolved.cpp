#include "config/resolved.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace accelopt::config {

namespace {

/// A double-quoted YAML scalar.
std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (byte < 0x20 || byte == 0x7f) {
            result += fmt::format("\\x{:02x}", byte);
        } else {
            result += c;
        }
    }
    return result + "\"";
}

std::string text(const std::string& value) { return quoted(value); }
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(double value) { return fmt::format("{}", value); }
std::string text(std::int64_t value) { return std::to_string(value); }

template <typename T>
std::string or_else(const std::optional<T>& value, const char* absent) {
    return value ? text(*value) : absent;
}

constexpr std::string_view kAlwaysShown[] = {"key_env",   "temperature",    "max_tokens",
                                             "reasoning", "stream",         "timeout_s",
                                             "max_tries", "stall_timeout_s"};

std::string agents(const RunConfig& config) {
    std::string result = "agents:\n";
    for (const char* role : {"planner", "executor", "summarizer"}) {
        result += fmt::format("  {}: {{model: {}}}\n", role, text(config.agents.at(role)));
    }
    const auto fixer = config.agents.find("fixer");
    if (fixer == config.agents.end()) return result + "  fixer: null\n";
    return result + fmt::format("  fixer: {{model: {}, attempts: {}}}\n", text(fixer->second),
                                config.fixer_attempts);
}

/// What a model was given, in one order whatever the file's; what it was not given has its default.
std::string models(const RunConfig& config) {
    std::string result = "models:\n";
    for (const auto& [key, model] : config.models) {
        const std::vector<std::pair<const char*, std::string>> values = {
            {"url", text(model.url)},
            {"name", text(model.name)},
            {"key_env", text(model.key_env)},
            {"secret_key_env", text(model.secret_key_env)},
            {"session_token_env", text(model.session_token_env)},
            {"region", text(model.region)},
            {"temperature", text(model.temperature)},
            {"max_tokens", text(model.max_tokens)},
            {"max_tokens_field", text(model.max_tokens_field)},
            {"reasoning", or_else(model.reasoning, "null")},
            {"thinking", or_else(model.thinking, "null")},
            {"cache_prompt", text(model.cache_prompt)},
            {"stream", text(model.stream)},
            {"timeout_s", text(model.timeout_s)},
            {"stall_timeout_s", text(model.stall_timeout_s)},
            {"max_tries", text(model.max_tries)},
            {"context_tokens", or_else(model.context_tokens, "null")},
            {"folder", text(model.folder)},
            {"wait", text(model.wait)},
            {"run", text(model.run)},
            {"fallback", or_else(model.fallback, "null")},
            {"budget_usd", or_else(model.budget_usd, "null")},
        };
        result += fmt::format("  {}:\n    provider: {}\n", text(key), text(model.provider));
        const bool remote = !model.url.empty();
        for (const auto& [name, value] : values) {
            const bool given =
                std::find(model.given.begin(), model.given.end(), name) != model.given.end();
            // The settings that decide what a remote model answers are always shown.
            const bool shown =
                remote && std::find(std::begin(kAlwaysShown), std::end(kAlwaysShown),
                                    std::string_view(name)) != std::end(kAlwaysShown);
            if (!given && !shown) continue;
            result += fmt::format("    {}: {}\n", name, value == "\"\"" ? "null" : value);
        }
    }
    return result;
}

std::string list(const std::vector<std::string>& items) {
    std::string joined;
    for (const std::string& item : items) joined += (joined.empty() ? "" : ", ") + text(item);
    return joined;
}

std::string head(const RunConfig& config) {
    const std::string problems = list(config.problems);
    return fmt::format(
        "run:\n  name: {}\n  directory: {}\n  seed: {}\n  secret_env: {}\n"
        "problems: [{}]\nsuite: {}\nshape: {}\ntarget: {}\n",
        text(config.name), text(config.directory), config.seed, or_else(config.secret_env, "null"),
        problems, or_else(config.suite, "null"), text(config.shape), text(config.target));
}

std::string search(const RunConfig& config) {
    const SearchOptions& s = config.search;
    const MemoryOptions& m = config.memory;
    return fmt::format(
        "search:\n  strategy: {}\n  variant: {}\n  beam: {}\n  plans: {}\n  samples: {}\n"
        "  rounds: {}\n  elitist: {}\n  tie: {}\n"
        "memory:\n  scope: {}\n  top_k: {}\n  capacity: {}\n  positive_threshold: {}\n"
        "  negative_threshold: {}\n",
        text(s.strategy), text(s.variant), s.beam, s.plans, s.samples, s.rounds, text(s.elitist),
        text(s.tie), text(m.scope), m.top_k, m.capacity, text(m.positive_threshold),
        text(m.negative_threshold));
}

std::string tail(const RunConfig& config) {
    return fmt::format(
        "prices: {}\nretry: {}\nprompts: {}\nmenu: {}\nmatrix: {{}}\n"
        "budget:\n  usd: {}\n  calls: {}\n  wall: {}\n  problem_usd: {}\n"
        "verify:\n  rule: {}\n  seeds: {}\n  tiers: [{}]\n  stress: {}\n  order: {}\n"
        "evaluator:\n  slots: {}\n  timeout_s: {}\n  memory_gib: {}\n  cache: {}\n  cache_gib: {}\n"
        "cluster:\n  margin_s: {}\n  coordinator_works: {}\n"
        "store:\n  locking: {}\n  compression: {}\nnumerics:\n  isa: {}\n",
        text(config.prices), text(config.retry), text(config.prompts), or_else(config.menu, "null"),
        or_else(config.budget_usd, "null"), or_else(config.budget_calls, "null"),
        or_else(config.budget_wall_s, "null"), or_else(config.budget_problem_usd, "null"),
        text(config.verify_rule),
        config.verify_published_seeds ? "published" : std::to_string(config.verify_seeds.size()),
        list(config.verify_tiers), text(config.verify_stress), text(config.verify_order),
        or_else(config.evaluator_slots, "auto"), text(config.evaluator_timeout_s),
        text(config.evaluator_memory_gib), or_else(config.evaluator_cache, "auto"),
        text(config.evaluator_cache_gib), text(config.cluster_margin_s),
        or_else(config.coordinator_works, "auto"), text(config.store_locking),
        config.store_compression, text(config.numerics_isa));
}

}  // namespace

std::string write_resolved(const RunConfig& config) {
    return head(config) + search(config) + agents(config) + models(config) + tail(config);
}

}  // namespace accelopt::config
