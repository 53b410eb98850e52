#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "eval/evaluator.h"
#include "eval/problem.h"

using namespace accelopt;
using eval::EvaluatorPool;
using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

namespace {

const std::string kHead =
    "import neuronxcc.nki as nki\n"
    "import neuronxcc.nki.language as nl\n";

EvaluationRequest request_of(const std::string& source) {
    EvaluationRequest request;
    request.id = "one";
    request.problem = "silu";
    request.shape = "test";
    request.seeds = {0};
    request.secret = "s";
    request.source = source;
    return request;
}

EvaluatorPool make_pool() {
    eval::PoolOptions options;
    options.program = std::string(ACCELOPT_BINARY_DIR) + "/accelopt-eval";
    options.slots = 1;
    return EvaluatorPool(options);
}

std::string verdict(EvaluatorPool& pool, EvaluationRequest request) {
    pool.submit(std::move(request));
    std::vector<EvaluationReply> replies;
    while (pool.in_flight() > 0)
        for (auto& reply : pool.poll(10)) replies.push_back(std::move(reply));
    for (auto& reply : pool.poll(0)) replies.push_back(std::move(reply));
    REQUIRE(replies.size() == 1);
    const std::string reason = replies[0].reason.empty() ? "" : "/" + replies[0].reason;
    return std::string(to_string(replies[0].outcome)) + reason;
}

bool no_children() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("a kernel that exhausts a budget spoils nothing for the next one",
          "[eval][N05][N06][X25]") {
    const std::string good = eval::load_problem("silu", "test").baseline_source;
    {
        EvaluatorPool pool = make_pool();
        CHECK(verdict(pool, request_of(good)) == "ok");
        CHECK(
            verdict(pool, request_of(kHead + "def again(x):\n    return again(x)\n"
                                             "@nki.jit\ndef kernel(x):\n    return again(x)\n")) ==
            "resource_limit/recursion");
        CHECK(verdict(pool, request_of(good)) == "ok");
        // The deterministic verdict on an endless loop: steps, not the clock.
        EvaluationRequest loop =
            request_of(kHead + "@nki.jit\ndef kernel(x):\n    while True:\n        pass\n");
        loop.limits.steps = 1'000'000;
        CHECK(verdict(pool, loop) == "resource_limit/steps");
        CHECK(verdict(pool, request_of(kHead + "@nki.jit\ndef kernel(x):\n    l = [0]\n"
                                               "    while True:\n        l = l + l\n")) ==
              "resource_limit/memory");
        CHECK(verdict(pool, request_of(good)) == "ok");
    }
    CHECK(no_children());
}

TEST_CASE("a step budget too large for the clock is killed, reaped and followed by the next",
          "[eval][N06]") {
    {
        EvaluatorPool pool = make_pool();
        EvaluationRequest loop =
            request_of(kHead + "@nki.jit\ndef kernel(x):\n    while True:\n        pass\n");
        loop.limits.steps = 4'000'000'000'000'000'000;
        loop.limits.wall_s = 1;
        CHECK(verdict(pool, loop).starts_with("timeout"));
        CHECK(verdict(pool, request_of(eval::load_problem("silu", "test").baseline_source)) ==
              "ok");
    }
    CHECK(no_children());
}
