#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace accelopt::config {

/// The configuration of a run, typed; field names follow the YAML keys of design.md.
struct SearchOptions {
    std::string strategy = "accelopt";
    std::string variant = "repository";  ///< or "paper"
    int beam = 6;
    int plans = 12;
    int samples = 2;
    int rounds = 16;  ///< counts round 0
    bool elitist = false;
    std::string tie = "none";  ///< or "uncertainty": gains within the model's error are ties
};

struct MemoryOptions {
    std::string scope = "problem";  ///< or "campaign"
    int top_k = 8;
    int capacity = 16;
    double positive_threshold = 1.04;
    double negative_threshold = 1.15;
};

/// One entry of `models`. Which keys a provider needs and takes is known to `llm` (its registry).
struct ModelConfig {
    std::string key;
    std::string provider;
    std::vector<std::string> given;  ///< keys written in the entry, in file order
    std::string url;
    std::string name;
    std::string key_env;            ///< "" = none
    std::string secret_key_env;     ///< bedrock
    std::string session_token_env;  ///< bedrock
    std::string region;             ///< bedrock
    double temperature = 1.0;
    std::int64_t max_tokens = 20000;
    std::string max_tokens_field = "max_tokens";  ///< or "max_completion_tokens"
    std::optional<std::string> reasoning;
    std::optional<std::int64_t> thinking;  ///< budget of reasoning tokens
    bool cache_prompt = false;
    bool stream = true;
    double timeout_s = 600;
    double stall_timeout_s = 120;  ///< no byte for so long ends a try; 0 = never
    std::int64_t max_tries = 6;
    std::optional<std::int64_t> context_tokens;  ///< of the model; nullopt = not known
    std::string folder = "auto";                 ///< batch
    bool wait = false;                           ///< batch: poll for answers instead of stopping
    std::string run;                             ///< replay: directory of the recorded run
    std::optional<std::string> fallback;         ///< replay: the model that answers what is missing
    std::optional<double> budget_usd;
    std::string where;  ///< "file:line" for messages
};

struct RunConfig {
    std::string path;
    std::string name = "run";
    std::string directory = "auto";
    std::uint64_t seed = 1;
    std::optional<std::string> secret_env;
    std::vector<std::string> problems;
    std::string shape = "full";  ///< "full" or "test" (problem.yaml's test_shape)
    std::string target = "trn1";
    SearchOptions search;
    MemoryOptions memory;
    std::map<std::string, std::string> agents;  ///< role -> model key; a null role is absent
    std::int64_t fixer_attempts = 1;            ///< repairs of one sample, when there is a fixer
    std::map<std::string, ModelConfig> models;
    std::string prices = "configs/models/prices.yaml";
    std::string retry = "configs/models/retry.yaml";
    std::string prompts = "configs/prompts";
    std::optional<double> budget_usd;
    std::optional<double> budget_problem_usd;  ///< per problem
    std::optional<std::int64_t> budget_calls;
    std::optional<double> budget_wall_s;
    std::string verify_rule = "conditioned";  ///< or "published"
    std::vector<int> verify_seeds = {0, 1, 2, 3, 4};
    bool verify_published_seeds = false;  ///< verify_seeds are NKIBench's own, not indices
    /// What a kernel has to pass, in this order; "seed" (the first input set before all others) may
    /// be missing.
    std::vector<std::string> verify_tiers = {"legality", "timing", "seed", "values"};
    bool verify_stress = true;
    bool verify_order =
        false;  ///< tier order for every kernel that passed; baselines get it always
    std::optional<std::int64_t> evaluator_slots;  ///< nullopt = auto
    double evaluator_timeout_s = 180;
    double evaluator_memory_gib = 8;
    std::optional<std::string> evaluator_cache;  ///< nullopt = auto
    double evaluator_cache_gib = 8;
    double cluster_margin_s = 120;
    std::optional<bool> coordinator_works;  ///< nullopt = auto
    std::string store_locking = "auto";     ///< the only value supported yet
    std::int64_t store_compression = 4;
    std::string numerics_isa = "auto";  ///< the only value supported yet
    /// A checkout of NKIBench whose kernels the run starts from, judged by the problems of the same
    /// names; `problems` then chooses among them, and may be empty.
    std::optional<std::string> suite;
    std::optional<std::string> menu;  ///< refused when set: not supported yet

    std::string resolved;  ///< the complete configuration as YAML, no secrets
};

/// Loads, merges (`base:`), overrides and validates; every error has file:line and, for a
/// misspelling, a suggestion. Cross-field errors (unknown agent model, missing environment
/// variable of a key, rounds < 1, ...) are found here, before anything is spent.
RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides);

/// Parses the resolved copy stored with a run.
RunConfig parse_resolved_config(const std::string& text, const std::string& name);

}  // namespace accelopt::config
