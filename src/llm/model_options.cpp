#include "llm/model_options.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace accelopt::llm {
namespace {

[[noreturn]] void fail(const config::ModelConfig& model, const std::string& message) {
    const std::string where = model.where.empty() ? "" : model.where + ": ";
    throw Error(ErrorSource::kConfig, "model", where + message + " (model " + model.key + ")");
}

Secret read_key(const config::ModelConfig& model) {
    if (model.key_env.empty()) return Secret();
    const char* value = std::getenv(model.key_env.c_str());
    if (!value || !*value) {
        fail(model, "the environment variable of key_env is not set: " + model.key_env);
    }
    std::string key = value;
    // A file read with $(cat ...) or an editor may leave blanks at the end.
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) {
        key.pop_back();
    }
    const bool sendable = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
        return c > 0x20 && c < 0x7f;
    });
    if (!sendable)
        fail(model, "the key has characters that a header cannot carry: " + model.key_env);
    return Secret(std::move(key));
}

void check_endpoint(const config::ModelConfig& model) {
    const bool http = model.url.rfind("http://", 0) == 0 || model.url.rfind("https://", 0) == 0;
    if (!http) fail(model, "url must start with https:// or http://: " + model.url);
    const auto host = model.url.find("//") + 2;
    if (model.url.substr(host, model.url.find('/', host) - host).find('@') != std::string::npos) {
        fail(model, "url must not carry a user name or a password; use key_env");
    }
    if (model.name.empty()) fail(model, "name is missing: the model as the endpoint calls it");
}

}  // namespace

ModelOptions make_model_options(const config::ModelConfig& model) {
    if (model.provider == "openai") check_endpoint(model);
    if (!(model.timeout_s > 0)) fail(model, "timeout_s must be positive");
    if (model.max_tries < 1 || model.max_tries > 1000) fail(model, "max_tries must be 1 to 1000");
    if (model.max_tokens < 1 || model.max_tokens > 100'000'000) {
        fail(model, "max_tokens must be 1 to 100000000");
    }
    ModelOptions options;
    options.key = model.key;
    options.provider = model.provider;
    options.url = model.url;
    options.name = model.name;
    options.api_key = read_key(model);
    options.temperature = model.temperature;
    options.max_tokens = static_cast<int>(model.max_tokens);
    options.reasoning = model.reasoning;
    options.stream = model.stream;
    options.timeout_s = model.timeout_s;
    options.max_tries = static_cast<int>(model.max_tries);
    return options;
}

std::string price_name(const ModelOptions& model, const PriceTable& prices) {
    if (!model.name.empty() && prices.find(model.name)) return model.name;
    if (!prices.find(model.key) && model.provider == "builtin") return "builtin";
    return model.key;
}

void require_prices(const std::map<std::string, config::ModelConfig>& models,
                    const PriceTable& prices, bool dollar_budget) {
    if (!dollar_budget) return;
    for (const auto& [key, model] : models) {
        ModelOptions options;
        options.key = key;
        options.name = model.name;
        options.provider = model.provider;
        if (!prices.find(price_name(options, prices))) {
            fail(model, "budget.usd is set, but the price file has no price for this model: " +
                            (model.name.empty() ? key : model.name));
        }
    }
}

}  // namespace accelopt::llm
