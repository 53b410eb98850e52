#include "config/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include "config/reader.h"
#include "config/resolved.h"
#include "core/text.h"

namespace accelopt::config {

namespace {

/// Whether variables named by *_env must exist now: not when a stored copy is read back.
enum class Environment { kRequired, kNotAsked };

constexpr std::int64_t kMaxCount = 1'000'000;

std::int64_t int_between(const Section& section, const std::string& key, std::int64_t fallback,
                         std::int64_t low, std::int64_t high) {
    const std::int64_t value = section.int_or(key, fallback);
    if (value < low || value > high) {
        section.fail(key, high >= kMaxCount && value < low
                              ? fmt::format("must be at least {}, found {}", low, value)
                              : fmt::format("must be {} to {}, found {}", low, high, value));
    }
    return value;
}

int count_at(const Section& section, const std::string& key, int fallback, int low) {
    return static_cast<int>(int_between(section, key, fallback, low, kMaxCount));
}

double number_at_least(const Section& section, const std::string& key, double fallback,
                       double low) {
    const double value = section.double_or(key, fallback);
    if (value < low) section.fail(key, fmt::format("must be at least {}, found {}", low, value));
    return value;
}

double positive(const Section& section, const std::string& key, double value) {
    if (!(value > 0)) section.fail(key, fmt::format("must be more than 0, found {}", value));
    return value;
}

std::string non_empty(const Section& section, const std::string& key, std::string value) {
    if (value.empty()) section.fail(key, "must not be empty");
    return value;
}

std::string choice(const Section& section, const std::string& key, const std::string& fallback,
                   const std::vector<std::string>& allowed) {
    std::string value = section.string_or(key, fallback);
    section.require_one_of(key, value, allowed);
    return value;
}

[[noreturn]] void not_supported(const Section& section, const std::string& key,
                                const std::string& value, const std::string& instead) {
    section.fail(key, "'" + value + "' is not supported yet; use " + instead);
}

/// One of `known`, of which only `fallback` works in this version.
std::string only(const Section& section, const std::string& key, const std::string& fallback,
                 const std::vector<std::string>& known) {
    std::string value = choice(section, key, fallback, known);
    if (value != fallback) not_supported(section, key, value, fallback);
    return value;
}

/// True when the key is absent or "auto".
bool is_auto(const Section& section, const std::string& key) {
    return !section.has(key) || section.get_string(key) == "auto";
}

/// The name of an environment variable. A value that does not look like one may be a pasted
/// secret, so it is not repeated in the message.
std::optional<std::string> variable_name(const Section& section, const std::string& key,
                                         Environment environment) {
    std::optional<std::string> name = section.optional_string(key);
    if (!name) return name;
    const bool valid = !name->empty() && !std::isdigit(static_cast<unsigned char>(name->front())) &&
                       std::all_of(name->begin(), name->end(), [](unsigned char c) {
                           return std::isupper(c) || std::isdigit(c) || c == '_';
                       });
    if (!valid) {
        section.fail(key,
                     "must be the name of an environment variable (capital letters, digits, _), "
                     "never a key itself");
    }
    if (environment == Environment::kRequired) {
        const char* value = std::getenv(name->c_str());
        if (!value || !*value) {
            section.fail(key, "the environment variable " + *name + " is not set");
        }
    }
    return name;
}

/// Seconds of "5400", "90m", "1h30m" or "2d"; nullopt when it is none of these.
std::optional<double> parse_duration(const std::string& text) {
    static const std::string kUnits = "dhms";
    static const double kSeconds[] = {86400, 3600, 60, 1};
    double total = 0;
    std::size_t next_unit = 0;
    for (std::size_t i = 0; i < text.size();) {
        double number = 0;
        const std::size_t start = i;
        for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i) {
            number = number * 10 + (text[i] - '0');
        }
        if (i == start || i == text.size()) return std::nullopt;
        const std::size_t unit = kUnits.find(text[i++], next_unit);
        if (unit == std::string::npos) return std::nullopt;
        total += number * kSeconds[unit];
        next_unit = unit + 1;  // larger units first, each once
    }
    if (text.empty()) return std::nullopt;
    return total;
}

std::optional<double> wall_budget(const Section& section) {
    const std::string key = "wall";
    if (section.is_null(key) || !section.has(key)) return section.optional_double(key);
    const std::string text = section.get_string(key);
    std::optional<double> seconds = parse_duration(text);
    if (!seconds) {
        const bool number = text.find_first_not_of("+-.0123456789eE") == std::string::npos;
        if (!number) {
            section.fail(key, "expected seconds or a duration such as 1h30m, found '" + text + "'");
        }
        seconds = section.get_double(key);
    }
    return positive(section, key, *seconds);
}

/// Host and scheme of an endpoint. A user name or password in it would end up in logs.
std::string checked_url(const Section& section) {
    const std::string url = section.get_string("url");
    const std::size_t scheme = url.rfind("http://", 0) == 0    ? 7
                               : url.rfind("https://", 0) == 0 ? 8
                                                               : 0;
    if (scheme == 0) section.fail("url", "must start with http:// or https://");
    const std::string host = url.substr(scheme, url.find_first_of("/?#", scheme) - scheme);
    if (host.find('@') != std::string::npos) {
        section.fail("url", "must not carry a user name or password; name a variable in key_env");
    }
    const bool printable =
        std::all_of(url.begin(), url.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
    if (host.empty() || host.front() == ':' || !printable) {
        section.fail("url", "is not a usable address: '" + url + "'");
    }
    return url;
}

/// An address where there is one; whether a provider needs one is not known here.
std::string optional_url(const Section& section) {
    return section.has("url") && !section.is_null("url") ? checked_url(section) : std::string();
}

void read_model_names(const Section& section, Environment environment, ModelConfig& model) {
    const auto variable = [&](const char* key) {
        return variable_name(section, key, environment).value_or("");
    };
    model.url = optional_url(section);
    model.name = section.string_or("name", "");
    if (section.has("name")) non_empty(section, "name", model.name);
    model.key_env = variable("key_env");
    model.secret_key_env = variable("secret_key_env");
    model.session_token_env = variable("session_token_env");
    model.region = section.optional_string("region").value_or("");
    model.folder = non_empty(section, "folder", section.string_or("folder", model.folder));
    model.run = section.optional_string("run").value_or("");
    model.fallback = section.optional_string("fallback");
}

void read_model_limits(const Section& section, ModelConfig& model) {
    model.temperature = section.double_or("temperature", model.temperature);
    if (model.temperature < 0 || model.temperature > 2) {
        section.fail("temperature", fmt::format("must be 0 to 2, found {}", model.temperature));
    }
    model.max_tokens = int_between(section, "max_tokens", model.max_tokens, 1, 100'000'000);
    model.max_tokens_field = choice(section, "max_tokens_field", model.max_tokens_field,
                                    {"max_tokens", "max_completion_tokens"});
    model.reasoning = section.optional_string("reasoning");
    if (model.reasoning) non_empty(section, "reasoning", *model.reasoning);
    model.thinking = section.optional_int("thinking");
    if (model.thinking && (*model.thinking < 1024 || *model.thinking >= model.max_tokens)) {
        section.fail("thinking",
                     fmt::format("must be 1024 or more and less than max_tokens ({}), found {}",
                                 model.max_tokens, *model.thinking));
    }
    if (model.thinking && model.temperature != 1) {
        section.fail("thinking", "needs temperature: 1");
    }
    model.cache_prompt = section.bool_or("cache_prompt", model.cache_prompt);
    model.stream = section.bool_or("stream", model.stream);
    model.wait = section.bool_or("wait", model.wait);
    model.timeout_s = positive(section, "timeout_s", section.double_or("timeout_s", 600));
    model.stall_timeout_s = number_at_least(section, "stall_timeout_s", model.stall_timeout_s, 0);
    model.max_tries = int_between(section, "max_tries", model.max_tries, 1, 1000);
    model.context_tokens = section.optional_int("context_tokens");
    if (model.context_tokens && *model.context_tokens <= model.max_tokens) {
        section.fail("context_tokens", fmt::format("must be more than max_tokens ({}), found {}",
                                                   model.max_tokens, *model.context_tokens));
    }
    model.budget_usd = section.optional_double("budget_usd");
    if (model.budget_usd) positive(section, "budget_usd", *model.budget_usd);
}

ModelConfig read_model(const Section& section, const std::string& key, Environment environment) {
    ModelConfig model;
    model.key = key;
    model.where = section.where();
    model.given = section.keys();
    model.provider = non_empty(section, "provider", section.get_string("provider"));
    read_model_names(section, environment, model);
    read_model_limits(section, model);
    return model;
}

void read_run(const Section& section, Environment environment, RunConfig& config) {
    config.name = section.string_or("name", config.name);
    const bool plain = std::all_of(config.name.begin(), config.name.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '.' || c == '_' || c == '-';
    });
    if (config.name.empty() || !plain || config.name.front() == '.') {
        section.fail("name", "names a folder: use letters, digits, '.', '_' and '-'");
    }
    config.directory = non_empty(section, "directory", section.string_or("directory", "auto"));
    config.seed = static_cast<std::uint64_t>(
        int_between(section, "seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
    config.secret_env = variable_name(section, "secret_env", environment);
}

void read_problems(const Section& root, RunConfig& config) {
    config.suite = root.optional_string("suite");
    if (config.suite) (void)non_empty(root, "suite", *config.suite);
    if (!config.suite || root.has("problems")) config.problems = root.string_list("problems");
    if (config.problems.empty() && !config.suite)
        root.fail("problems", "must name at least one problem");
    std::set<std::string> seen;
    for (const std::string& problem : config.problems) {
        if (problem.empty()) root.fail("problems", "holds an empty name");
        if (!seen.insert(problem).second) root.fail("problems", "names '" + problem + "' twice");
    }
    config.shape = choice(root, "shape", config.shape, {"full", "test"});
    if (config.suite && config.shape != "full")
        root.fail("shape", "must be full: the kernels of a suite are written for one shape");
    config.target = non_empty(root, "target", root.string_or("target", config.target));
}

void read_search(const Section& section, SearchOptions& search) {
    search.strategy = only(section, "strategy", search.strategy,
                           {"accelopt", "autocomp", "sampling", "reflexion"});
    search.variant = choice(section, "variant", search.variant, {"repository", "paper"});
    search.beam = count_at(section, "beam", search.beam, 1);
    search.plans = count_at(section, "plans", search.plans, 1);
    search.samples = count_at(section, "samples", search.samples, 1);
    search.rounds = count_at(section, "rounds", search.rounds, 1);
    search.elitist = section.bool_or("elitist", search.elitist);
    search.tie = choice(section, "tie", search.tie, {"none", "uncertainty"});
}

void read_memory(const Section& section, MemoryOptions& memory) {
    memory.scope = choice(section, "scope", memory.scope, {"problem", "campaign"});
    memory.top_k = count_at(section, "top_k", memory.top_k, 0);
    memory.capacity = count_at(section, "capacity", memory.capacity, 0);
    memory.positive_threshold =
        number_at_least(section, "positive_threshold", memory.positive_threshold, 1);
    memory.negative_threshold =
        number_at_least(section, "negative_threshold", memory.negative_threshold, 1);
}

void read_models(const Section& section, Environment environment, RunConfig& config) {
    for (const std::string& key : section.keys()) {
        config.models.emplace(key, read_model(section.child(key), key, environment));
    }
    for (const auto& [key, model] : config.models) {
        if (!model.fallback) continue;
        const bool known = config.models.contains(*model.fallback) && *model.fallback != key;
        const Section entry = section.child(key);
        if (!known) {
            entry.fail("fallback", "is not another of the models: '" + *model.fallback + "'");
        }
        if (config.models.at(*model.fallback).provider == "replay") {
            entry.fail("fallback", "'" + *model.fallback +
                                       "' is a replay itself: name a model "
                                       "that can be asked");
        }
    }
}

void read_agents(const Section& section, RunConfig& config) {
    std::vector<std::string> models;
    for (const auto& [key, model] : config.models) models.push_back(key);
    for (const char* role : {"planner", "executor", "summarizer"}) {
        const Section agent = section.child(role);
        const std::string model = agent.get_string("model");
        if (config.models.count(model) == 0) agent.require_one_of("model", model, models);
        config.agents[role] = model;
    }
    const Section fixer = section.child_or_empty("fixer");
    if (!section.has("fixer") || section.is_null("fixer")) return;
    const std::string model = fixer.get_string("model");
    if (config.models.count(model) == 0) fixer.require_one_of("model", model, models);
    if (config.models.at(model).provider == "builtin") {
        fixer.fail("model", "is the builtin rewriter, which repairs no kernels: use null");
    }
    config.agents["fixer"] = model;
    config.fixer_attempts = int_between(fixer, "attempts", config.fixer_attempts, 1, 8);
}

void read_budget(const Section& section, RunConfig& config) {
    config.budget_usd = section.optional_double("usd");
    if (config.budget_usd) positive(section, "usd", *config.budget_usd);
    config.budget_calls = section.optional_int("calls");
    if (config.budget_calls && *config.budget_calls < 1) {
        section.fail("calls", fmt::format("must be at least 1, found {}", *config.budget_calls));
    }
    config.budget_wall_s = wall_budget(section);
    config.budget_problem_usd = section.optional_double("problem_usd");
    if (config.budget_problem_usd) positive(section, "problem_usd", *config.budget_problem_usd);
    if (config.budget_problem_usd && config.budget_usd &&
        *config.budget_problem_usd > *config.budget_usd) {
        section.fail("problem_usd",
                     fmt::format("is more than budget.usd ({})", *config.budget_usd));
    }
}

/// The input seeds of NKIBench (AccelOpt, eval_numpy.py).
const std::vector<int> kPublishedSeeds = {0, 21, 42, 63, 84};

/// A model's budget above the run's could never be reached.
void check_model_budgets(const Section& models, const RunConfig& config) {
    for (const auto& [key, model] : config.models) {
        if (!config.budget_usd || !model.budget_usd || *model.budget_usd <= *config.budget_usd) {
            continue;
        }
        models.child(key).fail("budget_usd",
                               fmt::format("is more than budget.usd ({})", *config.budget_usd));
    }
}

/// The tiers that may be left out, in their order among all.
void read_tiers(const Section& section, RunConfig& config) {
    if (!section.has("tiers")) return;
    const std::vector<std::string> asked = section.string_list("tiers");
    const std::vector<std::string> known = config.verify_tiers;
    for (const std::string& tier : asked) {
        if (tier == "stress" || tier == "order")
            section.fail("tiers", "'" + tier + "' is switched by verify." + tier);
        section.require_one_of("tiers", tier, known);
        if (std::count(asked.begin(), asked.end(), tier) > 1)
            section.fail("tiers", "names '" + tier + "' twice");
    }
    config.verify_tiers.clear();
    for (const std::string& tier : known) {
        if (std::find(asked.begin(), asked.end(), tier) != asked.end()) {
            config.verify_tiers.push_back(tier);
        } else if (tier != "seed") {
            section.fail("tiers", "must name " + tier + ": a kernel cannot win without");
        }
    }
}

void read_verify(const Section& section, RunConfig& config) {
    read_tiers(section, config);
    config.verify_rule = choice(section, "rule", config.verify_rule, {"conditioned", "published"});
    config.verify_published_seeds =
        section.has("seeds") && section.get_string("seeds") == "published";
    if (config.verify_published_seeds) {
        config.verify_seeds = kPublishedSeeds;
    } else {
        config.verify_seeds.resize(
            static_cast<std::size_t>(int_between(section, "seeds", 5, 1, 64)));
        std::iota(config.verify_seeds.begin(), config.verify_seeds.end(), 0);
    }
    config.verify_stress = section.bool_or("stress", config.verify_stress);
    config.verify_order = section.bool_or("order", config.verify_order);
}

void read_evaluator(const Section& section, RunConfig& config) {
    if (!is_auto(section, "slots")) {
        const std::string text = section.get_string("slots");
        if (text.find_first_not_of("+-0123456789") != std::string::npos) {
            section.fail("slots", "expected auto or an integer, found '" + text + "'");
        }
        config.evaluator_slots = int_between(section, "slots", 1, 1, 4096);
    }
    config.evaluator_timeout_s =
        positive(section, "timeout_s", section.double_or("timeout_s", config.evaluator_timeout_s));
    config.evaluator_memory_gib = positive(
        section, "memory_gib", section.double_or("memory_gib", config.evaluator_memory_gib));
    if (!is_auto(section, "cache")) {
        config.evaluator_cache = non_empty(section, "cache", section.get_string("cache"));
    }
    config.evaluator_cache_gib =
        number_at_least(section, "cache_gib", config.evaluator_cache_gib, 0);
}

void read_rest(const Section& root, RunConfig& config) {
    config.prices = non_empty(root, "prices", root.string_or("prices", config.prices));
    config.retry = non_empty(root, "retry", root.string_or("retry", config.retry));
    config.prompts = non_empty(root, "prompts", root.string_or("prompts", config.prompts));
    config.menu = root.optional_string("menu");
    if (config.menu) not_supported(root, "menu", *config.menu, "null");
    if (!root.child_or_empty("matrix").keys().empty()) {
        root.fail("matrix", "sweeps are not supported yet; use {}");
    }
    const Section cluster = root.child_or_empty("cluster");
    config.cluster_margin_s = number_at_least(cluster, "margin_s", config.cluster_margin_s, 0);
    if (!is_auto(cluster, "coordinator_works")) {
        const std::string text = cluster.get_string("coordinator_works");
        if (text != "true" && text != "false") {
            cluster.fail("coordinator_works", "expected auto, true or false, found '" + text + "'");
        }
        config.coordinator_works = text == "true";
    }
    const Section store = root.child_or_empty("store");
    config.store_locking = only(store, "locking", "auto", {"auto", "on", "off"});
    config.store_compression = int_between(store, "compression", config.store_compression, 0, 9);
    const Section numerics = root.child_or_empty("numerics");
    config.numerics_isa = numerics.string_or("isa", "auto");
    if (config.numerics_isa != "auto") {
        not_supported(numerics, "isa", config.numerics_isa, "auto");
    }
}

RunConfig read(const Section& root, const std::string& path, Environment environment) {
    RunConfig config;
    config.path = path;
    read_run(root.child_or_empty("run"), environment, config);
    read_problems(root, config);
    read_search(root.child_or_empty("search"), config.search);
    read_memory(root.child_or_empty("memory"), config.memory);
    const Section models = root.child("models");
    read_models(models, environment, config);
    read_agents(root.child("agents"), config);
    read_budget(root.child_or_empty("budget"), config);
    check_model_budgets(models, config);
    read_verify(root.child_or_empty("verify"), config);
    read_evaluator(root.child_or_empty("evaluator"), config);
    read_rest(root, config);
    if (root.has("base")) (void)root.optional_string("base");
    root.finish();
    config.resolved = write_resolved(config);
    return config;
}

}  // namespace

RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides) {
    return read(load_file(path, overrides), path, Environment::kRequired);
}

RunConfig parse_resolved_config(const std::string& text, const std::string& name) {
    return read(load_text(text, name), name, Environment::kNotAsked);
}

}  // namespace accelopt::config
