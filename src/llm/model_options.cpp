#include "llm/model_options.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "llm/registry.h"

namespace accelopt::llm {
namespace {

/// Answers to a batch come when they come.
constexpr double kBatchDeadline_s = 1e9;

[[noreturn]] void fail(const config::ModelConfig& model, const std::string& message) {
    const std::string where = model.where.empty() ? "" : model.where + ": ";
    throw Error(ErrorSource::kConfig, "model", where + message + " (model " + model.key + ")");
}

Secret read_key(const config::ModelConfig& model, const std::string& variable) {
    if (variable.empty()) return Secret();
    const char* value = std::getenv(variable.c_str());
    if (!value || !*value) {
        fail(model, "the environment variable of its key is not set: " + variable);
    }
    std::string key = value;
    // A file read with $(cat ...) or an editor may leave blanks at the end.
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) {
        key.pop_back();
    }
    const bool sendable = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
        return c > 0x20 && c < 0x7f;
    });
    if (!sendable) fail(model, "the key has characters that a header cannot carry: " + variable);
    return Secret(std::move(key));
}

void check_url(const config::ModelConfig& model) {
    const bool http = model.url.rfind("http://", 0) == 0 || model.url.rfind("https://", 0) == 0;
    if (!http) fail(model, "url must start with https:// or http://: " + model.url);
    const auto host = model.url.find("//") + 2;
    if (model.url.substr(host, model.url.find('/', host) - host).find('@') != std::string::npos) {
        fail(model, "url must not carry a user name or a password; use key_env");
    }
}

void check_limits(const config::ModelConfig& model) {
    if (!(model.timeout_s > 0)) fail(model, "timeout_s must be positive");
    if (model.max_tries < 1 || model.max_tries > 1000) fail(model, "max_tries must be 1 to 1000");
    if (model.max_tokens < 1 || model.max_tokens > 100'000'000) {
        fail(model, "max_tokens must be 1 to 100000000");
    }
}

}  // namespace

void check_model(const config::ModelConfig& model) {
    check_provider_keys(model);
    if (!model.url.empty()) check_url(model);
    check_limits(model);
}

ModelOptions make_model_options(const config::ModelConfig& model) {
    check_model(model);
    ModelOptions options;
    options.key = model.key;
    options.provider = model.provider;
    options.url = model.url;
    options.name = model.name;
    options.api_key = read_key(model, model.key_env);
    options.secret_key = read_key(model, model.secret_key_env);
    options.session_token = read_key(model, model.session_token_env);
    options.region = model.region;
    options.temperature = model.temperature;
    options.max_tokens = static_cast<int>(model.max_tokens);
    options.token_field = model.max_tokens_field;
    options.reasoning = model.reasoning;
    options.thinking_tokens = static_cast<int>(model.thinking.value_or(0));
    options.cache_prompt = model.cache_prompt;
    options.stream = model.stream && model.provider != "bedrock";
    options.timeout_s = model.provider == "batch" ? kBatchDeadline_s : model.timeout_s;
    options.stall_timeout_s = model.stall_timeout_s;
    options.max_tries = static_cast<int>(model.max_tries);
    options.context_tokens = model.context_tokens.value_or(0);
    options.folder = model.folder;
    options.wait = model.wait;
    options.recording = model.run;
    options.fallback = model.fallback.value_or("");
    return options;
}

std::string price_name(const ModelOptions& model, const PriceTable& prices) {
    if (!model.name.empty() && prices.find(model.name)) return model.name;
    if (!prices.find(model.key) && model.provider == "builtin") return "builtin";
    return model.key;
}

void require_prices(const std::map<std::string, config::ModelConfig>& models,
                    const PriceTable& prices, bool dollar_budget) {
    for (const auto& [key, model] : models) {
        const bool recorded = model.provider == "replay";  // costs nothing
        if (recorded || !(dollar_budget || model.budget_usd)) continue;
        ModelOptions options;
        options.key = key;
        options.name = model.name;
        options.provider = model.provider;
        if (!prices.max_cost_usd(price_name(options, prices), 1, 1)) {
            fail(model,
                 "a budget in dollars is set, but the price file has no price for this "
                 "model: " +
                     (model.name.empty() ? key : model.name));
        }
    }
}

void check_models(const std::map<std::string, config::ModelConfig>& models,
                  const PriceTable& prices, bool dollar_budget) {
    for (const auto& [key, model] : models) check_model(model);
    require_prices(models, prices, dollar_budget);
}

}  // namespace accelopt::llm
