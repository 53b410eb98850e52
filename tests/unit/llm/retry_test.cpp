#include "llm/retry.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "core/error.h"

using namespace accelopt;
using namespace accelopt::llm;
using protocol::LlmOutcome;

namespace {

struct PolicyFile {
    explicit PolicyFile(const std::string& text)
        : path("/tmp/accelopt-retry-" + std::to_string(getpid()) + ".yaml") {
        std::ofstream(path) << text;
    }
    ~PolicyFile() { std::remove(path.c_str()); }
    std::string path;
};

std::string error_of(const std::string& text) {
    const PolicyFile file(text);
    try {
        load_retry_options(file.path);
    } catch (const Error& error) {
        CHECK(error.source() == ErrorSource::kConfig);
        const std::string message = error.what();
        CHECK(message.find(file.path + ":") == 0);
        return message.substr(file.path.size() + 1);
    }
    return "";
}

}  // namespace

TEST_CASE("the shipped retry policy is the one that is built in") {
    const auto shipped =
        load_retry_options(std::string(ACCELOPT_SOURCE_DIR) + "/configs/models/retry.yaml");
    const RetryOptions built_in;
    CHECK(shipped.base_s == built_in.base_s);
    CHECK(shipped.cap_s == built_in.cap_s);
    REQUIRE(shipped.rules.size() == built_in.rules.size());
    for (const auto& [outcome, rule] : built_in.rules) {
        CAPTURE(protocol::to_string(outcome));
        CHECK(shipped.rule(outcome).max_retries == rule.max_retries);
        CHECK(shipped.rule(outcome).backoff == rule.backoff);
        CHECK(shipped.rule(outcome).token_factor == rule.token_factor);
    }
}

TEST_CASE("a retry policy is read from a file") {
    const PolicyFile file(
        "base_s: 0.5\ncap_s: 4\noutcomes:\n  server_error: {retries: 2}\n"
        "  length: {retries: 1, backoff: false, token_factor: 3}\n");
    const auto options = load_retry_options(file.path);
    CHECK(options.base_s == 0.5);
    CHECK(options.rule(LlmOutcome::kServerError).max_retries == 2);
    CHECK(options.rule(LlmOutcome::kLength).token_factor == 3);
    CHECK_FALSE(options.rule(LlmOutcome::kLength).backoff);
    CHECK(options.rule(LlmOutcome::kRateLimited).max_retries == 0);
}

TEST_CASE("a mistake in a retry policy is told with its line", "[N24]") {
    CHECK(error_of("outcomes:\n  severerror: {}\n").find("2: ") == 0);
    CHECK(error_of("outcomes:\n  context_overflow: {}\n").find("2: ") == 0);
    CHECK(error_of("outcomes:\n  context_overflow: {retries: 0}\n").empty());
    CHECK(error_of("outcomes:\n  timeout: {retries: -1}\n").find("2: ") == 0);
    CHECK(error_of("outcomes:\n  timeout: {token_factor: 0.5}\n").find("2: ") == 0);
    CHECK(error_of("base_s: 5\ncap_s: 1\n").find("2: ") == 0);
    CHECK(error_of("base_s: 5\nbase: 1\n").find("2: ") == 0);
}
