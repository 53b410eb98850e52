#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "scratch_folder.h"

using namespace accelopt;
using eval::EvaluatorPool;
using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

namespace {

/// Answers every request as the protocol asks, without evaluating.
const char* kAnswers =
    "while read -r line; do\n"
    "  id=$(printf '%s' \"$line\" | sed 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/')\n"
    "  printf '{\"schema\":1,\"id\":\"%s\",\"problem\":\"silu\",\"target\":\"trn1\","
    "\"source_sha256\":\"\",\"outcome\":\"ok\",\"reason\":null,\"tier\":\"values\"}\\n' \"$id\"\n"
    "done\n";

EvaluationRequest request_named(const std::string& id, double wall_s = 20) {
    EvaluationRequest request;
    request.id = id;
    request.problem = "silu";
    request.source = "x = 1";
    request.limits.wall_s = wall_s;
    return request;
}

eval::PoolOptions options_for(const std::string& program, int slots = 1) {
    eval::PoolOptions options;
    options.program = program;
    options.slots = slots;
    return options;
}

/// Replies of everything in flight.
std::vector<EvaluationReply> drain(EvaluatorPool& pool) {
    std::vector<EvaluationReply> replies;
    while (pool.in_flight() > 0) {
        for (auto& reply : pool.poll(10)) replies.push_back(std::move(reply));
    }
    for (auto& reply : pool.poll(0)) replies.push_back(std::move(reply));
    return replies;
}

EvaluationReply ask(EvaluatorPool& pool, EvaluationRequest request) {
    pool.submit(std::move(request));
    auto replies = drain(pool);
    REQUIRE(replies.size() == 1);
    return std::move(replies[0]);
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

/// Starts counted by a script that appends to a file.
int starts(const std::string& file) {
    std::ifstream in(file);
    int count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("a pool answers every request once and leaves no process behind") {
    const ScratchFolder folder;
    {
        EvaluatorPool pool(options_for(folder.write_script("e", kAnswers), 3));
        CHECK(pool.slots() == 3);
        CHECK(pool.poll(0).empty());
        for (int i = 0; i < 12; ++i) pool.submit(request_named("r" + std::to_string(i)));
        CHECK(pool.in_flight() == 12);
        std::vector<std::string> ids;
        for (const auto& reply : drain(pool)) {
            CHECK(reply.outcome == Outcome::kOk);
            ids.push_back(reply.id);
        }
        std::sort(ids.begin(), ids.end());
        CHECK(ids.size() == 12);
        CHECK(std::unique(ids.begin(), ids.end()) == ids.end());
        CHECK(pool.in_flight() == 0);
    }
    CHECK_FALSE(has_children());
}

TEST_CASE("a hanging evaluator is killed, retried once on a fresh process, then timed out") {
    const ScratchFolder folder;
    const std::string log = folder.path() + "/starts";
    const std::string script =
        folder.write_script("e", "echo x >> " + log + "\nread -r line\nexec sleep 1000\n");
    EvaluatorPool pool(options_for(script));
    const auto start = std::chrono::steady_clock::now();
    const EvaluationReply reply = ask(pool, request_named("slow", 0.2));
    CHECK(reply.outcome == Outcome::kTimeout);
    CHECK(reply.id == "slow");
    CHECK(starts(log) == 2);
    CHECK(seconds_since(start) >= 0.4);
    CHECK_FALSE(has_children());
}

TEST_CASE("a retry that answers hides the first time-out") {
    const ScratchFolder folder;
    const std::string mark = folder.path() + "/mark";
    EvaluatorPool pool(
        options_for(folder.write_script("e", "if [ ! -e " + mark + " ]; then touch " + mark +
                                                 "; exec sleep 1000; fi\n" + kAnswers)));
    CHECK(ask(pool, request_named("a", 1.0)).outcome == Outcome::kOk);
}

TEST_CASE("an evaluator that ignores requests and SIGTERM is still killed") {
    const ScratchFolder folder;
    {
        EvaluatorPool pool(options_for(
            folder.write_script("e", "trap '' TERM INT HUP\nwhile :; do sleep 0.05; done\n")));
        pool.submit(request_named("a", 1000));
        pool.poll(0.1);
        const auto start = std::chrono::steady_clock::now();
        pool.poll(0.05);
        CHECK(seconds_since(start) < 2);
    }
    CHECK_FALSE(has_children());
}

TEST_CASE("a crash is reported with its signal or status, and the next request is served") {
    const ScratchFolder folder;
    const std::string mark = folder.path() + "/mark";
    const auto crashing = [&](const std::string& end) {
        std::filesystem::remove(mark);
        return folder.write_script("e", "if [ ! -e " + mark + " ]; then touch " + mark +
                                            "; read -r line; " + end + "; fi\n" + kAnswers);
    };
    {
        EvaluatorPool pool(options_for(crashing("kill -SEGV $$")));
        const EvaluationReply reply = ask(pool, request_named("a"));
        CHECK(reply.outcome == Outcome::kCrashed);
        CHECK(reply.reason == "signal 11 (SIGSEGV)");
        CHECK(ask(pool, request_named("b")).outcome == Outcome::kOk);
    }
    {
        EvaluatorPool pool(options_for(crashing("exit 3")));
        const EvaluationReply reply = ask(pool, request_named("a"));
        CHECK(reply.outcome == Outcome::kCrashed);
        CHECK(reply.reason == "exit status 3");
        CHECK(ask(pool, request_named("b")).outcome == Outcome::kOk);
    }
}

TEST_CASE("an evaluator that dies without reading is a crash, and no SIGPIPE") {
    const ScratchFolder folder;
    EvaluatorPool pool(options_for(folder.write_script("e", "exit 7\n")));
    EvaluationRequest large = request_named("a");
    large.source = std::string(1 << 20, 'x');
    CHECK(ask(pool, large).reason == "exit status 7");
    CHECK(ask(pool, large).reason == "exit status 7");
}

TEST_CASE("garbage, foreign ids and double answers are protocol errors of the evaluator") {
    const ScratchFolder folder;
    const char* bodies[] = {
        "read -r l; echo hello; sleep 5\n",
        "read -r l; echo '{\"schema\":1}'; sleep 5\n",
        "read -r l; echo '{\"schema\":1,\"id\":\"other\",\"problem\":\"silu\",\"target\":\"trn1\","
        "\"source_sha256\":\"\",\"outcome\":\"ok\",\"reason\":null,\"tier\":\"values\"}'; sleep "
        "5\n",
        "echo early; read -r l; sleep 5\n",
    };
    for (const char* body : bodies) {
        INFO(body);
        EvaluatorPool pool(options_for(folder.write_script("e", body)));
        const EvaluationReply reply = ask(pool, request_named("a"));
        CHECK(reply.outcome == Outcome::kEvaluatorError);
        CHECK(reply.reason == "protocol");
        CHECK(reply.id == "a");
    }
    CHECK_FALSE(has_children());
}

TEST_CASE("an endless line is cut off") {
    const ScratchFolder folder;
    EvaluatorPool pool(options_for(folder.write_script("e", "read -r l; exec cat /dev/zero\n")));
    const EvaluationReply reply = ask(pool, request_named("a"));
    CHECK(reply.outcome == Outcome::kEvaluatorError);
    CHECK(reply.reason == "protocol");
}

TEST_CASE("requests larger than a pipe arrive whole") {
    const ScratchFolder folder;
    EvaluatorPool pool(options_for(folder.write_script("e", kAnswers), 2));
    for (int i = 0; i < 3; ++i) {
        EvaluationRequest request = request_named("r" + std::to_string(i));
        request.source = std::string(200000, 'y');  // a pipe holds 64 KiB
        pool.submit(request);
    }
    for (const auto& reply : drain(pool)) CHECK(reply.outcome == Outcome::kOk);
}

TEST_CASE("a pool without a usable program or limit says so at once") {
    CHECK_THROWS_AS(EvaluatorPool(options_for("/nowhere/accelopt-eval")), Error);
    const ScratchFolder folder;
    CHECK_THROWS_AS(EvaluatorPool(options_for(folder.write_script("e", ""), 0)), Error);
    const std::string not_a_program = folder.write("data",
                                                   "\x7f"
                                                   "ELF nonsense");
    std::filesystem::permissions(not_a_program, std::filesystem::perms::owner_all);
    EvaluatorPool broken(options_for(not_a_program));
    broken.submit(request_named("a"));
    CHECK_THROWS_AS(broken.poll(0), Error);
    CHECK_FALSE(has_children());

    EvaluatorPool pool(options_for(folder.write_script("e", kAnswers)));
    CHECK(ask(pool, request_named("a", -1)).reason == "bad_request");
    CHECK(ask(pool, request_named("a", std::nan(""))).reason == "bad_request");
}

TEST_CASE("evaluators inherit no descriptors and die with their parent") {
    const ScratchFolder folder;
    const std::string pid_file = folder.path() + "/pid";
    const std::string fd_file = folder.path() + "/fds";
    const std::string script =
        folder.write_script("e", "ls -l /proc/$$/fd > " + fd_file + "\necho $$ > " + pid_file +
                                     "\nread -r l\nread -r l\n");
    const std::string held = folder.write("held-open", "");
    const int leak = open(held.c_str(), O_RDONLY);
    REQUIRE(leak >= 0);
    const pid_t parent = fork();
    if (parent == 0) {
        EvaluatorPool pool(options_for(script));
        pool.submit(request_named("a", 1000));
        while (!std::filesystem::exists(pid_file)) pool.poll(0.02);
        usleep(50000);
        kill(getpid(), SIGKILL);
    }
    close(leak);
    waitpid(parent, nullptr, 0);
    const pid_t evaluator = std::stoi(read_file(pid_file));
    bool gone = false;
    for (int i = 0; i < 500 && !gone; ++i) {
        // A zombie adopted by an init that does not reap counts as dead.
        std::ifstream status("/proc/" + std::to_string(evaluator) + "/stat");
        std::string text((std::istreambuf_iterator<char>(status)), {});
        gone = text.empty() || text.find(") Z") != std::string::npos;
        if (!gone) usleep(10000);
    }
    CHECK(gone);
    const std::string descriptors = read_file(fd_file);
    CHECK(descriptors.find("pipe:") != std::string::npos);
    CHECK(descriptors.find("held-open") == std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("an evaluator's memory is capped by the request's budget and a fixed allowance") {
    const ScratchFolder folder, cache;
    const std::string file = folder.path() + "/limit";
    eval::PoolOptions options =
        options_for(folder.write_script("e", "read -r l\nulimit -d > " + file + "\n"));
    options.cache_directory = cache.path();
    EvaluatorPool pool(options);
    EvaluationRequest request = request_named("a");
    request.limits.memory_bytes = std::int64_t{1} << 30;
    (void)ask(pool, request);
    CHECK(std::stoll(read_file(file)) == std::int64_t{5} << 20);  // in KiB
}
#endif

namespace {

std::string real_program() { return std::string(ACCELOPT_BINARY_DIR) + "/accelopt-eval"; }

/// Runs accelopt-eval on these lines; returns its output and exit status.
std::pair<std::string, int> run_program(const ScratchFolder& folder, const std::string& lines,
                                        const std::string& arguments = "") {
    const std::string input = folder.write("input", lines);
    FILE* pipe = popen((real_program() + " " + arguments + " < " + input + " 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string output;
    char buffer[4096];
    for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
    return {output, WEXITSTATUS(pclose(pipe))};
}

}  // namespace

TEST_CASE("accelopt-eval evaluates a baseline through the pool with a shared cache") {
    const ScratchFolder cache;
    eval::PoolOptions options = options_for(real_program());
    options.cache_directory = cache.path() + "/references";
    options.cache_bytes = 100'000'000;
    EvaluatorPool pool(options);
    EvaluationRequest request = request_named("real", 120);
    request.shape = "test";
    request.secret = "s";
    request.seeds = {0, 1};
    request.source = eval::load_problem("silu", "test").baseline_source;
    const EvaluationReply reply = ask(pool, request);
    INFO(to_json(reply));
    CHECK(reply.verified());
    CHECK(reply.tier == "stress");
    CHECK(reply.correctness.size() == 2 + eval::load_problem("silu", "test").stress.size());
    CHECK_FALSE(std::filesystem::is_empty(options.cache_directory));
}

namespace {

EvaluationRequest silu_request(const std::string& source) {
    EvaluationRequest request = request_named("real", 120);
    request.shape = "test";
    request.secret = "s";
    request.seeds = {0};
    request.tiers = {"legality", "values"};
    request.source = source;
    return request;
}

}  // namespace

TEST_CASE("a kernel that ends abnormally leaves the next evaluation alone", "[N05]") {
    const std::string good = eval::load_problem("silu", "test").baseline_source;
    const std::string endless = "def f(n):\n    return f(n)\n\ndef kernel(x):\n    return f(x)\n";
    {
        EvaluatorPool pool(options_for(real_program()));
        CHECK(ask(pool, silu_request(good)).verified());
        const EvaluationReply reply = ask(pool, silu_request(endless));
        CHECK(reply.outcome == Outcome::kResourceLimit);
        CHECK(reply.reason == "recursion");
        CHECK(ask(pool, silu_request(good)).verified());
    }
    CHECK_FALSE(has_children());
}

TEST_CASE("a kernel beyond its wall clock is killed, and the next unit starts", "[N06]") {
    {
        EvaluatorPool pool(options_for(real_program()));
        EvaluationRequest endless = silu_request("def kernel(x):\n    while True:\n        pass\n");
        endless.limits.steps = 100'000;
        CHECK(ask(pool, endless).reason == "steps");
        endless.limits.steps = std::int64_t{1} << 60;
        endless.limits.wall_s = 0.5;
        const EvaluationReply reply = ask(pool, endless);
        CHECK(reply.outcome == Outcome::kTimeout);
        CHECK_FALSE(reply.verified());
        CHECK(
            ask(pool, silu_request(eval::load_problem("silu", "test").baseline_source)).verified());
    }
    CHECK_FALSE(has_children());
}

TEST_CASE("accelopt-eval answers malformed lines and goes on") {
    const ScratchFolder folder;
    const auto [output, status] =
        run_program(folder, "nonsense\n\n{\"schema\": 1}\n" + to_json(request_named("last")) +
                                "\n{\"schema\": 1, \"id\": \"cut");
    CHECK(status == 0);
    const auto lines = split(output, '\n');
    REQUIRE(lines.size() == 5);
    for (const int i : {0, 1, 3}) {
        const auto reply = protocol::parse_evaluation_reply(lines[static_cast<std::size_t>(i)]);
        REQUIRE(reply.ok());
        CHECK(reply->reason == "bad_request");
    }
    const auto last = protocol::parse_evaluation_reply(lines[2]);
    REQUIRE(last.ok());
    CHECK(last->id == "last");
}

TEST_CASE("accelopt-eval explains itself and refuses unknown options") {
    const ScratchFolder folder;
    const auto [help, help_status] = run_program(folder, "", "--help");
    CHECK(help_status == 0);
    CHECK(help.find("Example") != std::string::npos);
    CHECK(help.find("--cache") != std::string::npos);
    const auto [complaint, status] = run_program(folder, "", "--cash x");
    CHECK(status == 2);
    const auto [bad_cache, cache_status] = run_program(folder, "", "--cache /proc/nothing");
    CHECK(cache_status == 2);
    CHECK(bad_cache.find("/proc/nothing") != std::string::npos);
}
