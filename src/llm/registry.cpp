#include "llm/registry.h"

#include <algorithm>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "llm/anthropic.h"
#include "llm/batch.h"
#include "llm/bedrock.h"
#include "llm/openai.h"

namespace accelopt::llm {
namespace {

using Keys = std::vector<std::string>;

struct Entry {
    std::string name;
    Keys needed;
    Keys taken;  ///< beside those needed, `provider` and `budget_usd`
    std::function<std::shared_ptr<Provider>(RecordingLoader&, Clock&)> make;
};

const Keys kSampling = {"temperature", "max_tokens", "reasoning", "max_tries", "context_tokens"};
const Keys kHttp = {"key_env", "stream", "timeout_s", "stall_timeout_s"};

Keys operator+(Keys left, const Keys& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

/// One line per provider.
const std::vector<Entry>& entries() {
    static const std::vector<Entry> kEntries = {
        {"openai",
         {"url", "name"},
         kSampling + kHttp + Keys{"max_tokens_field"},
         [](auto&, Clock& clock) { return make_openai_provider(clock); }},
        {"anthropic",
         {"url", "name", "key_env"},
         kSampling + kHttp + Keys{"thinking", "cache_prompt"},
         [](auto&, Clock& clock) { return make_anthropic_provider(clock); }},
        {"bedrock",
         {"name", "region", "key_env", "secret_key_env"},
         kSampling + kHttp + Keys{"url", "session_token_env", "thinking", "cache_prompt"},
         [](auto&, Clock& clock) { return make_bedrock_provider(clock); }},
        {"batch",
         {"name"},
         kSampling + Keys{"max_tokens_field", "folder", "wait"},
         [](auto&, Clock& clock) { return make_batch_provider(clock); }},
        {"replay",
         {"run"},
         kSampling + kHttp + Keys{"url", "name", "fallback"},
         [](RecordingLoader& loader, Clock&) { return make_replay_provider(loader); }},
        {"builtin", {}, {}, nullptr},
    };
    return kEntries;
}

bool holds(const Keys& keys, const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
}

[[noreturn]] void fail(const config::ModelConfig& model, const std::string& message) {
    const std::string where = model.where.empty() ? "" : model.where + ": ";
    throw Error(ErrorSource::kConfig, "model", where + "models." + model.key + message);
}

}  // namespace

ProviderRegistry make_providers(RecordingLoader recordings, Clock& clock) {
    ProviderRegistry providers;
    for (const auto& entry : entries()) {
        if (entry.make) providers[entry.name] = entry.make(recordings, clock);
    }
    return providers;
}

std::vector<std::string> provider_names() {
    std::vector<std::string> names;
    for (const auto& entry : entries()) names.push_back(entry.name);
    return names;
}

void check_provider_keys(const config::ModelConfig& model) {
    const auto entry = std::find_if(entries().begin(), entries().end(),
                                    [&](const Entry& e) { return e.name == model.provider; });
    if (entry == entries().end()) {
        std::string message =
            ".provider: '" + model.provider + "' is not one of " + join(provider_names(), ", ");
        const std::string near = nearest_word(model.provider, provider_names());
        if (!near.empty()) message += "; did you mean '" + near + "'?";
        fail(model, message);
    }
    const std::map<std::string, const std::string*> values = {
        {"url", &model.url},         {"name", &model.name},
        {"key_env", &model.key_env}, {"region", &model.region},
        {"run", &model.run},         {"secret_key_env", &model.secret_key_env}};
    for (const auto& key : entry->needed) {
        if (!values.at(key)->empty()) continue;
        fail(model, "." + key + " is missing: the provider " + model.provider + " needs it");
    }
    for (const auto& key : model.given) {
        const bool known = key == "provider" || key == "budget_usd" || holds(entry->needed, key) ||
                           holds(entry->taken, key);
        if (!known) fail(model, "." + key + " means nothing to the provider " + model.provider);
    }
}

}  // namespace accelopt::llm
