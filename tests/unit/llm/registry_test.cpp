#include "llm/registry.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "llm/model_options.h"

using namespace accelopt;
using namespace accelopt::llm;

namespace {

config::ModelConfig entry(const std::string& provider, std::vector<std::string> given) {
    config::ModelConfig model;
    model.key = "m";
    model.provider = provider;
    model.where = "c.yaml:7";
    for (const auto& key : given) {
        if (key == "url") model.url = "https://h/v1";
        if (key == "name") model.name = "org/m";
        if (key == "key_env") model.key_env = "A_KEY";
        if (key == "secret_key_env") model.secret_key_env = "B_KEY";
        if (key == "region") model.region = "us-east-1";
        if (key == "run") model.run = "runs/r-1";
    }
    model.given = std::move(given);
    model.given.push_back("provider");
    return model;
}

std::string error_of(const config::ModelConfig& model) {
    try {
        check_model(model);
    } catch (const Error& error) {
        CHECK(error.source() == ErrorSource::kConfig);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("an unknown provider is told with its line and the nearest name") {
    CHECK(error_of(entry("openia", {})) ==
          "c.yaml:7: models.m.provider: 'openia' is not one of openai, anthropic, bedrock, batch, "
          "replay, builtin; did you mean 'openai'?");
}

TEST_CASE("what a provider needs must be there, and what means nothing to it must not") {
    CHECK(error_of(entry("openai", {"url", "name"})).empty());
    CHECK(error_of(entry("openai", {"name"})) ==
          "c.yaml:7: models.m.url is missing: the provider openai needs it");
    CHECK(error_of(entry("openai", {"url", "name", "region"})) ==
          "c.yaml:7: models.m.region means nothing to the provider openai");
    CHECK(error_of(entry("builtin", {"temperature"})) ==
          "c.yaml:7: models.m.temperature means nothing to the provider builtin");
    CHECK(error_of(entry("anthropic", {"url", "name", "key_env", "thinking"})).empty());
    CHECK(error_of(entry("anthropic", {"url", "name"})).find("key_env") != std::string::npos);
    CHECK(error_of(entry("bedrock", {"name", "region", "key_env", "secret_key_env"})).empty());
    CHECK(error_of(entry("bedrock", {"name", "key_env", "secret_key_env"})).find("region") !=
          std::string::npos);
    CHECK(error_of(entry("batch", {"name", "folder", "wait"})).empty());
    CHECK(error_of(entry("batch", {"name", "stream"})).find("stream") != std::string::npos);
    CHECK(error_of(entry("replay", {"run", "fallback"})).empty());
    CHECK(error_of(entry("replay", {})).find("run") != std::string::npos);
    CHECK(error_of(entry("builtin", {})).empty());
}

TEST_CASE("every provider of the list can be made") {
    const auto providers = make_providers(nullptr);
    for (const auto& name : provider_names()) {
        CAPTURE(name);
        CHECK(providers.contains(name) == (name != "builtin"));
    }
}

TEST_CASE("a budget of a model needs its price", "[N21]") {
    config::ModelConfig model = entry("openai", {"url", "name"});
    CHECK_NOTHROW(check_models({{"m", model}}, {}, false));
    model.budget_usd = 3;
    CHECK_THROWS_WITH(check_models({{"m", model}}, {}, false),
                      Catch::Contains("c.yaml:7") && Catch::Contains("org/m"));
    config::ModelConfig replayed = entry("replay", {"run"});
    CHECK_NOTHROW(check_models({{"m", replayed}}, {}, true));
}
