#include "config/resolved.h"

#include <fmt/format.h>

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

std::string agents(const RunConfig& config) {
    std::string result = "agents:\n";
    for (const char* role : {"planner", "executor", "summarizer"}) {
        result += fmt::format("  {}: {{model: {}}}\n", role, text(config.agents.at(role)));
    }
    return result + "  fixer: null\n";
}

std::string models(const RunConfig& config) {
    std::string result = "models:\n";
    for (const auto& [key, model] : config.models) {
        result += fmt::format("  {}:\n    provider: {}\n", text(key), text(model.provider));
        if (model.provider == "builtin") continue;
        const std::string key_env = model.key_env.empty() ? "null" : text(model.key_env);
        result += fmt::format(
            "    url: {}\n    name: {}\n    key_env: {}\n    temperature: {}\n    max_tokens: {}\n"
            "    reasoning: {}\n    stream: {}\n    timeout_s: {}\n    max_tries: {}\n",
            text(model.url), text(model.name), key_env, text(model.temperature),
            text(model.max_tokens), or_else(model.reasoning, "null"), text(model.stream),
            text(model.timeout_s), text(model.max_tries));
    }
    return result;
}

std::string head(const RunConfig& config) {
    std::string problems;
    for (const std::string& problem : config.problems) {
        problems += (problems.empty() ? "" : ", ") + text(problem);
    }
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
        "  rounds: {}\n  elitist: {}\n"
        "memory:\n  scope: {}\n  top_k: {}\n  capacity: {}\n  positive_threshold: {}\n"
        "  negative_threshold: {}\n",
        text(s.strategy), text(s.variant), s.beam, s.plans, s.samples, s.rounds, text(s.elitist),
        text(m.scope), m.top_k, m.capacity, text(m.positive_threshold), text(m.negative_threshold));
}

std::string tail(const RunConfig& config) {
    return fmt::format(
        "prices: {}\nprompts: {}\nmenu: {}\nmatrix: {{}}\n"
        "budget:\n  usd: {}\n  calls: {}\n  wall: {}\n"
        "verify:\n  rule: {}\n  seeds: {}\n  stress: {}\n"
        "evaluator:\n  slots: {}\n  timeout_s: {}\n  memory_gib: {}\n  cache: {}\n  cache_gib: {}\n"
        "cluster:\n  margin_s: {}\n  coordinator_works: {}\n"
        "store:\n  locking: {}\n  compression: {}\nnumerics:\n  isa: {}\n",
        text(config.prices), text(config.prompts), or_else(config.menu, "null"),
        or_else(config.budget_usd, "null"), or_else(config.budget_calls, "null"),
        or_else(config.budget_wall_s, "null"), text(config.verify_rule),
        config.verify_published_seeds ? "published" : std::to_string(config.verify_seeds.size()),
        text(config.verify_stress), or_else(config.evaluator_slots, "auto"),
        text(config.evaluator_timeout_s), text(config.evaluator_memory_gib),
        or_else(config.evaluator_cache, "auto"), text(config.evaluator_cache_gib),
        text(config.cluster_margin_s), or_else(config.coordinator_works, "auto"),
        text(config.store_locking), config.store_compression, text(config.numerics_isa));
}

}  // namespace

std::string write_resolved(const RunConfig& config) {
    return head(config) + search(config) + agents(config) + models(config) + tail(config);
}

}  // namespace accelopt::config
