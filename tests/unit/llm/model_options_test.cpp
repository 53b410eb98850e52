#include "llm/model_options.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/error.h"

using namespace accelopt;
using namespace accelopt::llm;

namespace {

config::ModelConfig endpoint() {
    config::ModelConfig model;
    model.key = "gpt";
    model.provider = "openai";
    model.url = "https://models.example/v1";
    model.name = "org/gpt";
    model.key_env = "ACCELOPT_TEST_KEY";
    model.given = {"provider", "url", "name", "key_env"};
    model.where = "run.yaml:12";
    return model;
}

std::string message(const config::ModelConfig& model) {
    try {
        make_model_options(model);
    } catch (const Error& error) {
        CHECK(error.source() == ErrorSource::kConfig);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("a model's options come from its configuration and its key from the environment") {
    setenv("ACCELOPT_TEST_KEY", "sk-test-0123456789\n", 1);
    config::ModelConfig model = endpoint();
    model.temperature = 0.5;
    model.max_tokens = 123;
    model.reasoning = "medium";
    model.stream = true;
    model.timeout_s = 9;
    model.max_tries = 2;
    const ModelOptions options = make_model_options(model);
    CHECK(options.key == "gpt");
    CHECK(options.name == "org/gpt");
    CHECK(options.api_key.reveal() == "sk-test-0123456789");
    CHECK(options.temperature == 0.5);
    CHECK(options.max_tokens == 123);
    CHECK(options.reasoning.value() == "medium");
    CHECK(options.stream);
    CHECK(options.timeout_s == 9);
    CHECK(options.max_tries == 2);
}

TEST_CASE("a missing or unusable key is told with its variable and never with its value") {
    unsetenv("ACCELOPT_TEST_KEY");
    CHECK_THAT(message(endpoint()),
               Catch::Contains("run.yaml:12") && Catch::Contains("ACCELOPT_TEST_KEY"));
    setenv("ACCELOPT_TEST_KEY", "sk-one\r\nX-Evil: two", 1);
    CHECK_THAT(message(endpoint()),
               Catch::Contains("ACCELOPT_TEST_KEY") && !Catch::Contains("sk-one"));
}

TEST_CASE("an endpoint needs an http address without a password, and a model name") {
    setenv("ACCELOPT_TEST_KEY", "k", 1);
    config::ModelConfig model = endpoint();
    model.url = "models.example/v1";
    CHECK_THAT(message(model), Catch::Contains("https://"));
    model.url = "https://user:hunter2@models.example/v1";
    CHECK_THAT(message(model), Catch::Contains("key_env") && !Catch::Contains("hunter2"));
    model = endpoint();
    model.name = "";
    CHECK_THAT(message(model), Catch::Contains("name"));
    model = endpoint();
    model.max_tries = 0;
    CHECK_THAT(message(model), Catch::Contains("max_tries"));
    CHECK(message(endpoint()).empty());
}

TEST_CASE("the built-in model needs neither address nor key") {
    config::ModelConfig model;
    model.key = "rules";
    model.provider = "builtin";
    const ModelOptions options = make_model_options(model);
    CHECK(options.api_key.empty());
    PriceTable prices;
    prices.set("builtin", {});
    CHECK(price_name(options, prices) == "builtin");
    prices.set("rules", {});
    CHECK(price_name(options, prices) == "rules");
}

TEST_CASE("a dollar budget needs a price for every model", "[N21]") {
    PriceTable prices;
    Price known;
    known.input_usd = 1;
    known.output_usd = 2;
    prices.set("org/gpt", known);
    std::map<std::string, config::ModelConfig> models{{"gpt", endpoint()}};
    CHECK_NOTHROW(require_prices(models, prices, true));
    models["gpt"].name = "org/unlisted";
    CHECK_NOTHROW(require_prices(models, prices, false));
    CHECK_THROWS_WITH(require_prices(models, prices, true),
                      Catch::Contains("run.yaml:12") && Catch::Contains("org/unlisted"));
}
