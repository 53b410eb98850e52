#include "config/run_config.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/text.h"
#include "error_text.h"

using namespace accelopt::config;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string kMinimal =
    "problems: [silu]\n"
    "agents:\n"
    "  planner: {model: m}\n"
    "  executor: {model: m}\n"
    "  summarizer: {model: m}\n"
    "models:\n"
    "  m: {provider: builtin}\n";

RunConfig parsed(const std::string& text) { return parse_resolved_config(text, "c.yaml"); }

/// The error for the minimal configuration with more lines, the first of which is line 8.
std::string error_with(const std::string& lines) {
    return config_error([&] { (void)parsed(kMinimal + lines); });
}

std::string error_of(const std::string& text) {
    return config_error([&] { (void)parsed(text); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

/// The minimal configuration with an OpenAI model whose settings start at line 8.
std::string with_endpoint(const std::string& settings) {
    return replaced(kMinimal, "  m: {provider: builtin}\n",
                    "  m:\n    provider: openai\n" + settings);
}

const std::string kUrlAndName = "    url: https://h/v1\n    name: n\n";

std::string config_file(const std::string& name) {
    return std::string(ACCELOPT_SOURCE_DIR) + "/configs/" + name;
}

}  // namespace

TEST_CASE("a minimal configuration has the documented defaults") {
    const RunConfig c = parsed(kMinimal);
    CHECK(c.name == "run");
    CHECK(c.directory == "auto");
    CHECK(c.seed == 1);
    CHECK(c.problems == std::vector<std::string>{"silu"});
    CHECK(c.shape == "full");
    CHECK(c.target == "trn1");
    CHECK(c.search.strategy == "accelopt");
    CHECK(c.search.variant == "repository");
    CHECK(c.search.beam == 6);
    CHECK(c.search.plans == 12);
    CHECK(c.search.samples == 2);
    CHECK(c.search.rounds == 16);
    CHECK_FALSE(c.search.elitist);
    CHECK(c.search.tie == "none");
    CHECK(c.memory.scope == "problem");
    CHECK(c.memory.top_k == 8);
    CHECK(c.memory.capacity == 16);
    CHECK(c.memory.positive_threshold == 1.04);
    CHECK(c.memory.negative_threshold == 1.15);
    CHECK(c.agents.size() == 3);
    CHECK(c.models.at("m").provider == "builtin");
    CHECK(c.models.at("m").where == "c.yaml:7");
    CHECK(c.prices == "configs/models/prices.yaml");
    CHECK(c.prompts == "configs/prompts");
    CHECK_FALSE(c.budget_usd);
    CHECK_FALSE(c.budget_calls);
    CHECK_FALSE(c.budget_wall_s);
    CHECK(c.verify_rule == "conditioned");
    CHECK(c.verify_seeds == std::vector<int>{0, 1, 2, 3, 4});
    CHECK_FALSE(c.verify_published_seeds);
    CHECK(c.verify_stress);
    CHECK_FALSE(c.evaluator_slots);
    CHECK(c.evaluator_timeout_s == 180);
    CHECK(c.evaluator_memory_gib == 8);
    CHECK_FALSE(c.evaluator_cache);
    CHECK(c.cluster_margin_s == 120);
    CHECK_FALSE(c.coordinator_works);
    CHECK(c.store_compression == 4);
}

TEST_CASE("every key is read and survives the resolved copy") {
    const std::string text =
        "base: null\n"
        "run: {name: a.b-1, directory: 'out \"x\"', seed: 7, secret_env: MY_SECRET}\n"
        "problems: [silu, adamw]\nsuite: null\nshape: test\ntarget: trn2\n"
        "search: {strategy: accelopt, variant: paper, beam: 1, plans: 2, samples: 3, rounds: 4,"
        " elitist: true, tie: uncertainty}\n"
        "memory: {scope: campaign, top_k: 0, capacity: 0, positive_threshold: 1,"
        " negative_threshold: 1.5}\n"
        "agents: {planner: {model: llama-3.1}, executor: {model: m}, summarizer: {model: m},"
        " fixer: null}\n"
        "models:\n"
        "  m: {provider: builtin}\n"
        "  llama-3.1: {provider: openai, url: 'http://localhost:8000/v1', name: org/llama,"
        " key_env: A_KEY, temperature: 0.1, max_tokens: 5, reasoning: medium, stream: false,"
        " timeout_s: 1.5, max_tries: 2}\n"
        "prices: p.yaml\nprompts: q\nmenu: null\nmatrix: {}\n"
        "budget: {usd: 0.1, calls: 3, wall: 1h30m}\n"
        "verify: {rule: published, seeds: 64, stress: false}\n"
        "evaluator: {slots: 3, timeout_s: 0.5, memory_gib: 0.25, cache: '/c d', cache_gib: 0}\n"
        "cluster: {margin_s: 0, coordinator_works: false}\n"
        "store: {locking: auto, compression: 9}\n"
        "numerics: {isa: auto}\n";
    const RunConfig c = parsed(text);
    CHECK(c.seed == 7);
    CHECK(c.secret_env == "MY_SECRET");
    CHECK(c.budget_wall_s == 5400);
    CHECK(c.evaluator_slots == 3);
    CHECK(c.coordinator_works == false);

    const RunConfig again = parse_resolved_config(c.resolved, "resolved.yaml");
    CHECK(again.resolved == c.resolved);
    CHECK(again.name == "a.b-1");
    CHECK(again.directory == "out \"x\"");
    CHECK(again.seed == 7);
    CHECK(again.secret_env == c.secret_env);
    CHECK(again.problems == c.problems);
    CHECK(again.shape == "test");
    CHECK(again.target == "trn2");
    CHECK(again.search.variant == "paper");
    CHECK(again.search.beam == 1);
    CHECK(again.search.plans == 2);
    CHECK(again.search.samples == 3);
    CHECK(again.search.rounds == 4);
    CHECK(again.search.elitist);
    CHECK(again.search.tie == "uncertainty");
    CHECK(again.memory.scope == "campaign");
    CHECK(again.memory.top_k == 0);
    CHECK(again.memory.capacity == 0);
    CHECK(again.memory.positive_threshold == 1);
    CHECK(again.memory.negative_threshold == 1.5);
    CHECK(again.agents == c.agents);
    const ModelConfig& model = again.models.at("llama-3.1");
    CHECK(model.key == "llama-3.1");
    CHECK(model.provider == "openai");
    CHECK(model.url == "http://localhost:8000/v1");
    CHECK(model.name == "org/llama");
    CHECK(model.key_env == "A_KEY");
    CHECK(model.temperature == 0.1);
    CHECK(model.max_tokens == 5);
    CHECK(model.reasoning == "medium");
    CHECK(model.timeout_s == 1.5);
    CHECK(model.max_tries == 2);
    CHECK(again.prices == "p.yaml");
    CHECK(again.prompts == "q");
    CHECK(again.budget_usd == 0.1);
    CHECK(again.budget_calls == 3);
    CHECK(again.budget_wall_s == 5400);
    CHECK(again.verify_seeds.size() == 64);
    CHECK(again.evaluator_slots == 3);
    CHECK(again.evaluator_timeout_s == 0.5);
    CHECK(again.evaluator_memory_gib == 0.25);
    CHECK(again.evaluator_cache == "/c d");
    CHECK(again.evaluator_cache_gib == 0);
    CHECK(again.cluster_margin_s == 0);
    CHECK(again.coordinator_works == false);
    CHECK(again.store_compression == 9);
}

TEST_CASE("unknown keys are refused in every section, with a suggestion") {
    CHECK(error_with("serch: {beam: 1}\n") ==
          "c.yaml:8: unknown key 'serch'; did you mean 'search'?");
    CHECK(error_with("search:\n  beem: 1\n") ==
          "c.yaml:9: unknown key 'search.beem'; did you mean 'beam'?");
    for (const char* section : {"run", "search", "memory", "budget", "verify", "evaluator",
                                "cluster", "store", "numerics"}) {
        const std::string name = section;
        CHECK_THAT(
            error_with(name + ":\n  zzzzzzzzzz: 1\n"),
            StartsWith("c.yaml:9: unknown key '" + name + ".zzzzzzzzzz'; the keys here are"));
    }
    CHECK(error_of(replaced(kMinimal, "planner: {model: m}", "planner: {model: m, mode: 1}")) ==
          "c.yaml:3: unknown key 'agents.planner.mode'; did you mean 'model'?");
    CHECK(error_of(replaced(kMinimal, "  planner", "  critic: {model: m}\n  planner")) ==
          "c.yaml:3: unknown key 'agents.critic'; the keys here are executor, fixer, planner, "
          "summarizer");
    CHECK(
        error_of(with_endpoint(kUrlAndName + "    api_key: sk-123\n")) ==
        "c.yaml:11: unknown key 'models.m.api_key'; the keys here are budget_usd, cache_prompt, "
        "context_tokens, fallback, folder, key_env, max_tokens, max_tokens_field, max_tries, name, "
        "provider, reasoning, region, run, secret_key_env, session_token_env, stall_timeout_s, "
        "stream, temperature, thinking, timeout_s, url, wait");
}

TEST_CASE("required parts are asked for") {
    CHECK(error_of(replaced(kMinimal, "problems: [silu]\n", "problem: [silu]\n")) ==
          "c.yaml:1: missing key 'problems' (a list); is it meant by 'problem' at c.yaml:1?");
    CHECK(error_of(replaced(kMinimal, "[silu]", "[]")) ==
          "c.yaml:1: problems: must name at least one problem");
    CHECK(error_of(replaced(kMinimal, "[silu]", "silu")) ==
          "c.yaml:1: problems: expected a list, found 'silu'");
    CHECK(error_of(replaced(kMinimal, "[silu]", "[silu, adamw, silu]")) ==
          "c.yaml:1: problems: names 'silu' twice");
    CHECK(error_of(replaced(kMinimal, "  executor: {model: m}\n", "")) ==
          "c.yaml:2: missing key 'agents.executor' (a mapping)");
    CHECK(error_of(replaced(kMinimal, "executor: {model: m}", "executor: m")) ==
          "c.yaml:4: agents.executor: expected a mapping, found 'm'");
    CHECK(error_of(replaced(kMinimal, "executor: {model: m}", "executor: {model: gpt}")) ==
          "c.yaml:4: agents.executor.model: 'gpt' is not one of m");
    CHECK(error_of("problems: [silu]\nagents: {}\n") ==
          "c.yaml:1: missing key 'models' (a mapping)");
}

TEST_CASE("models are checked before anything is spent") {
    const auto model_error = [](const std::string& settings) {
        return error_of(with_endpoint(settings));
    };
    CHECK(error_of(replaced(kMinimal, "{provider: builtin}", "{}")) ==
          "c.yaml:7: missing key 'models.m.provider' (a text)");
    CHECK(model_error("    url: ftp://h\n") ==
          "c.yaml:9: models.m.url: must start with http:// or https://");
    CHECK(model_error("    url: https://\n") ==
          "c.yaml:9: models.m.url: is not a usable address: 'https://'");
    CHECK(model_error("    url: 'https://a b'\n") ==
          "c.yaml:9: models.m.url: is not a usable address: 'https://a b'");
    const std::string password = model_error("    url: https://user:hunter2@h/v1\n");
    CHECK_THAT(password, StartsWith("c.yaml:9: models.m.url: must not carry"));
    CHECK_THAT(password, !Contains("hunter2"));
    const auto setting = [&](const std::string& line) {
        return model_error(kUrlAndName + "    " + line + "\n");
    };
    CHECK(setting("temperature: 2.1") ==
          "c.yaml:11: models.m.temperature: must be 0 to 2, found 2.1");
    CHECK(setting("max_tokens: 0") ==
          "c.yaml:11: models.m.max_tokens: must be at least 1, found 0");
    CHECK(setting("max_tries: 0") == "c.yaml:11: models.m.max_tries: must be 1 to 1000, found 0");
    CHECK(setting("timeout_s: 0") == "c.yaml:11: models.m.timeout_s: must be more than 0, found 0");
    CHECK(setting("stream: true") == "no error");
    CHECK(setting("max_tokens_field: max_words") ==
          "c.yaml:11: models.m.max_tokens_field: 'max_words' is not one of max_tokens, "
          "max_completion_tokens");
    CHECK(setting("thinking: 20000") ==
          "c.yaml:11: models.m.thinking: must be 1024 or more and less than max_tokens (20000), "
          "found 20000");
    CHECK(setting("temperature: 0.5\n    thinking: 2000") ==
          "c.yaml:12: models.m.thinking: needs temperature: 1");
    CHECK(setting("context_tokens: 16384") ==
          "c.yaml:11: models.m.context_tokens: must be more than max_tokens (20000), found 16384");
    CHECK(setting("stall_timeout_s: -1") ==
          "c.yaml:11: models.m.stall_timeout_s: must be at least 0, found -1");
    CHECK(setting("budget_usd: 0") ==
          "c.yaml:11: models.m.budget_usd: must be more than 0, found 0");
    CHECK(setting("fallback: nobody") ==
          "c.yaml:11: models.m.fallback: is not another of the models: 'nobody'");
    CHECK(setting("secret_key_env: wJalrX/UtnFEMI").find("wJalrX") == std::string::npos);
    CHECK(setting("reasoning: ''") == "c.yaml:11: models.m.reasoning: must not be empty");
    const std::string pasted = setting("key_env: sk-abcdef");
    CHECK_THAT(pasted, StartsWith("c.yaml:11: models.m.key_env: must be the name of"));
    CHECK_THAT(pasted, !Contains("sk-abcdef"));
}

TEST_CASE("numbers out of range are refused at their line") {
    const auto range = [](const std::string& section, const std::string& setting,
                          const std::string& message) {
        CHECK(error_with(section + ":\n  " + setting + "\n") ==
              "c.yaml:9: " + section + "." + setting.substr(0, setting.find(':')) + ": " + message);
    };
    range("search", "beam: 0", "must be at least 1, found 0");
    range("search", "plans: 0", "must be at least 1, found 0");
    range("search", "samples: -1", "must be at least 1, found -1");
    range("search", "rounds: 0", "must be at least 1, found 0");
    range("search", "rounds: 1000001", "must be 1 to 1000000, found 1000001");
    range("memory", "top_k: -1", "must be at least 0, found -1");
    range("memory", "capacity: -1", "must be at least 0, found -1");
    range("memory", "positive_threshold: 0.99", "must be at least 1, found 0.99");
    range("memory", "negative_threshold: 0.5", "must be at least 1, found 0.5");
    range("run", "seed: -1", "must be at least 0, found -1");
    range("verify", "seeds: 0", "must be 1 to 64, found 0");
    range("verify", "seeds: 65", "must be 1 to 64, found 65");
    range("evaluator", "slots: 0", "must be 1 to 4096, found 0");
    range("evaluator", "slots: many", "expected auto or an integer, found 'many'");
    range("evaluator", "timeout_s: 0", "must be more than 0, found 0");
    range("evaluator", "memory_gib: -1", "must be more than 0, found -1");
    range("evaluator", "cache_gib: -1", "must be at least 0, found -1");
    range("evaluator", "cache: ''", "must not be empty");
    range("cluster", "margin_s: -1", "must be at least 0, found -1");
    range("cluster", "coordinator_works: maybe", "expected auto, true or false, found 'maybe'");
    range("store", "compression: 10", "must be 0 to 9, found 10");
    range("budget", "usd: 0", "must be more than 0, found 0");
    range("budget", "usd: ten", "expected a number, found 'ten'");
    range("budget", "calls: 0", "must be at least 1, found 0");
    range("run", "name: a/b", "names a folder: use letters, digits, '.', '_' and '-'");
    range("run", "name: ..", "names a folder: use letters, digits, '.', '_' and '-'");
    CHECK(error_with("shape: small\n") == "c.yaml:8: shape: 'small' is not one of full, test");
}

TEST_CASE("the wall budget is seconds or a duration") {
    const auto wall = [](const std::string& text) {
        return *parsed(kMinimal + "budget: {wall: " + text + "}\n").budget_wall_s;
    };
    CHECK(wall("90") == 90);
    CHECK(wall("0.5") == 0.5);
    CHECK(wall("90m") == 5400);
    CHECK(wall("1h30m") == 5400);
    CHECK(wall("2d") == 172800);
    CHECK(wall("1m1s") == 61);
    for (const char* bad : {"1x", "m", "1h30", "30m1h", "1h1h", "soon"}) {
        CHECK(error_with("budget:\n  wall: " + std::string(bad) + "\n") ==
              "c.yaml:9: budget.wall: expected seconds or a duration such as 1h30m, found '" +
                  std::string(bad) + "'");
    }
    CHECK(error_with("budget:\n  wall: 0s\n") ==
          "c.yaml:9: budget.wall: must be more than 0, found 0");
    CHECK(error_with("budget:\n  wall: -5\n") ==
          "c.yaml:9: budget.wall: must be more than 0, found -5");
}

TEST_CASE("published seeds are NKIBench's own and survive the resolved copy") {
    const RunConfig c =
        parsed(std::string(kMinimal) + "verify: {rule: published, seeds: published}\n");
    CHECK(c.verify_published_seeds);
    CHECK(c.verify_seeds == std::vector<int>{0, 21, 42, 63, 84});
    const RunConfig again = parse_resolved_config(c.resolved, "resolved.yaml");
    CHECK(again.verify_seeds == c.verify_seeds);
    CHECK(again.verify_published_seeds);
    CHECK_THAT(error_with("verify:\n  rule: lenient\n"), Contains("conditioned"));
    CHECK_THAT(error_with("verify:\n  seeds: 0\n"), Contains("seeds"));
}

TEST_CASE("what has no effect yet is refused, never ignored") {
    const auto refused = [](const std::string& lines) {
        const std::string error = error_with(lines);
        CHECK_THAT(error, StartsWith("c.yaml:8: ") || StartsWith("c.yaml:9: "));
        CHECK_THAT(error, Contains("not supported yet"));
    };
    refused("menu: configs/menus/m.yaml\n");
    refused("matrix: {search.beam: [1, 2]}\n");
    refused("search:\n  strategy: autocomp\n");
    refused("numerics:\n  isa: avx2\n");
    refused("store:\n  locking: off\n");
}

TEST_CASE("a suite stands beside or instead of problems") {
    const std::string lines = replaced(kMinimal, "problems: [silu]\n", "");
    const RunConfig alone = parsed(lines + "suite: /checkout/NKIBench\n");
    CHECK(alone.suite == "/checkout/NKIBench");
    CHECK(alone.problems.empty());
    const RunConfig chosen = parsed(std::string(kMinimal) + "suite: /checkout\n");
    CHECK(chosen.problems.size() == 1);
    const RunConfig again = parse_resolved_config(chosen.resolved, "resolved.yaml");
    CHECK(again.suite == "/checkout");
    CHECK(again.problems == chosen.problems);
    CHECK_THAT(error_of(lines), Contains("problems"));
    CHECK_THAT(error_with("suite: ''\n"), Contains("suite"));
    CHECK_THAT(error_with("suite: /checkout\nshape: test\n"), Contains("must be full"));
}

TEST_CASE("tiers that need not be passed may be left out, and are recorded") {
    const auto tiers = [](const std::string& list) {
        return parsed(std::string(kMinimal) + "verify: {tiers: " + list + "}\n");
    };
    CHECK(parsed(kMinimal).verify_tiers ==
          std::vector<std::string>{"legality", "timing", "seed", "values"});
    // In the order they run in, whatever the order they are written in.
    const RunConfig c = tiers("[values, timing, legality]");
    CHECK(c.verify_tiers == std::vector<std::string>{"legality", "timing", "values"});
    CHECK(parse_resolved_config(c.resolved, "resolved.yaml").verify_tiers == c.verify_tiers);
    const auto refused = [](const std::string& list, const std::string& what) {
        const std::string error = error_with("verify:\n  tiers: " + list + "\n");
        CHECK_THAT(error, StartsWith("c.yaml:9: "));
        CHECK_THAT(error, Contains(what));
    };
    refused("[timing, values]", "must name legality");
    refused("[legality, values]", "must name timing");
    refused("[legality, timing, stress]", "verify.stress");
    refused("[legality, timing, order]", "verify.order");
    refused("[legality, timing, timing]", "twice");
    refused("[legality, timing, vales]", "values");
    refused("[]", "must name legality");
    refused("[legality, timing, seed]", "must name values");
}

TEST_CASE("a fixer is another of the agents, with so many attempts") {
    const std::string text = with_endpoint(kUrlAndName);
    const auto with_fixer = [&](const std::string& fixer) {
        return replaced(text, "  planner", "  fixer: " + fixer + "\n  planner");
    };
    const RunConfig one = parsed(with_fixer("{model: m}"));
    CHECK(one.agents.at("fixer") == "m");
    CHECK(one.fixer_attempts == 1);
    const RunConfig three = parsed(with_fixer("{model: m, attempts: 3}"));
    CHECK(three.fixer_attempts == 3);
    const RunConfig again = parse_resolved_config(three.resolved, "resolved.yaml");
    CHECK(again.agents == three.agents);
    CHECK(again.fixer_attempts == 3);
    CHECK(again.resolved == three.resolved);
    CHECK_FALSE(parsed(with_fixer("null")).agents.contains("fixer"));
    CHECK_THAT(error_of(with_fixer("{model: m, attempts: 9}")),
               StartsWith("c.yaml:3: agents.fixer.attempts"));
    CHECK_THAT(error_of(with_fixer("{model: x}")), StartsWith("c.yaml:3: agents.fixer.model"));
    CHECK_THAT(error_of(replaced(kMinimal, "  planner", "  fixer: {model: m}\n  planner")),
               StartsWith("c.yaml:3: agents.fixer.model") && Contains("builtin"));
}

TEST_CASE("the environment is asked when a run starts, not when its copy is read") {
    const std::string text = with_endpoint(kUrlAndName + "    key_env: ACCELOPT_TEST_KEY\n");
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("accelopt-env-" + std::to_string(getpid()));
    accelopt::write_file_atomically(file.string(), text);
    unsetenv("ACCELOPT_TEST_KEY");
    CHECK(config_error([&] { (void)load_run_config(file.string(), {}); }) ==
          file.string() +
              ":11: models.m.key_env: the environment variable ACCELOPT_TEST_KEY is not set");
    CHECK_THAT(config_error([&] {
                   (void)load_run_config(file.string(), {"models.m.key_env=null",
                                                         "run.secret_env=ACCELOPT_TEST_KEY"});
               }),
               StartsWith("--set run.secret_env=ACCELOPT_TEST_KEY: run.secret_env: "));
    setenv("ACCELOPT_TEST_KEY", "very-secret", 1);
    const RunConfig config = load_run_config(file.string(), {"search.beam=3"});
    CHECK(config.path == file.string());
    CHECK(config.search.beam == 3);
    CHECK_THAT(config.resolved, !Contains("very-secret"));
    CHECK_THAT(config.resolved, Contains("ACCELOPT_TEST_KEY"));
    unsetenv("ACCELOPT_TEST_KEY");
    CHECK(parse_resolved_config(config.resolved, "r").resolved == config.resolved);
    CHECK(config_error([&] {
              (void)load_run_config(file.string(), {"models.m.key_env=null", "search.beam=0"});
          }) == "--set search.beam=0: search.beam: must be at least 1, found 0");
    std::filesystem::remove(file);
}

TEST_CASE("the shipped configurations load") {
    const RunConfig quick = load_run_config(config_file("quickstart.yaml"), {});
    CHECK(quick.name == "quickstart");
    CHECK(quick.problems.size() == 5);
    CHECK(quick.models.at("builtin").provider == "builtin");

    setenv("OPENAI_API_KEY", "k", 1);
    const RunConfig endpoint = load_run_config(config_file("endpoint.yaml"), {});
    CHECK(endpoint.problems == quick.problems);
    CHECK(endpoint.search.beam == 6);
    CHECK(endpoint.agents.at("executor") == "gpt-oss-120b");
    CHECK(endpoint.models.at("gpt-oss-120b").reasoning == "medium");
    CHECK(endpoint.budget_usd.has_value());
    unsetenv("OPENAI_API_KEY");
    CHECK_THAT(config_error([&] { (void)load_run_config(config_file("endpoint.yaml"), {}); }),
               Contains("OPENAI_API_KEY is not set"));
}
