// Evaluation time per kernel, cold (no reference yet) and warm, and its share by part.
//
//   bench_evaluate [--shape full|test] [--seeds N] [--cache DIR] [PROBLEM...]

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <numeric>

#include "core/error.h"
#include "eval/evaluator.h"
#include "eval/problem.h"

namespace {

using accelopt::protocol::EvaluationReply;

constexpr const char* kParts[] = {"parse",     "trace",  "legality", "timing",
                                  "reference", "values", "verify"};

void print_row(const std::string& problem, const char* state, const EvaluationReply& reply) {
    std::map<std::string, double> parts(reply.cost.parts.begin(), reply.cost.parts.end());
    std::printf("%-24s %-5s %8.3f", problem.c_str(), state, reply.cost.wall_s);
    for (const char* part : kParts) {
        std::printf(" %7.3f (%2.0f%%)", parts[part], 100 * parts[part] / reply.cost.wall_s);
    }
    std::printf("  %s", reply.verified() ? "verified" : "NOT VERIFIED");
    if (!reply.verified()) {
        std::printf(": %s/%s", std::string(to_string(reply.outcome)).c_str(), reply.reason.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    std::string shape = "full";
    int seeds = 5;
    accelopt::eval::EvaluatorOptions options;
    std::vector<std::string> problems;
    CLI::App app("Times evaluations of the shipped baselines.");
    app.add_option("--shape", shape)->check(CLI::IsMember({"full", "test"}))->capture_default_str();
    app.add_option("--seeds", seeds)->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--cache", options.cache_directory);
    app.add_option("problems", problems);
    CLI11_PARSE(app, argc, argv);
    try {
        if (problems.empty()) problems = accelopt::eval::shipped_problems();
        accelopt::eval::Evaluator evaluator(options);
        std::printf("%-24s %-5s %8s", "problem", "cache", "total s");
        for (const char* part : kParts) std::printf(" %13s", part);
        std::printf("\n");
        bool all_verified = true;
        for (const std::string& id : problems) {
            accelopt::protocol::EvaluationRequest request;
            request.id = id;
            request.problem = id;
            request.shape = shape;
            request.secret = "bench";
            request.seeds.resize(static_cast<std::size_t>(seeds));
            std::iota(request.seeds.begin(), request.seeds.end(), 0);
            request.source = accelopt::eval::load_problem(id, shape).baseline_source;
            for (const char* state : {"cold", "warm"}) {
                const EvaluationReply reply = evaluator.evaluate(request);
                print_row(id, state, reply);
                all_verified = all_verified && reply.verified();
            }
        }
        return all_verified ? 0 : 1;
    } catch (const accelopt::Error& error) {
        std::fprintf(stderr, "bench_evaluate: %s\n", error.what());
        return 2;
    }
}
