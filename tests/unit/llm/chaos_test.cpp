// Many calls against a server that fails one in five in every way it can. 500 calls; the variable
// ACCELOPT_CHAOS_CALLS asks for more.
#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "core/rng.h"
#include "llm/openai.h"
#include "support/fault_server.h"
#include "support/raw_server.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using namespace accelopt::testing;
using protocol::LlmOutcome;

namespace {

constexpr double kInput_usd = 2e-6;
constexpr double kOutput_usd = 4e-6;

std::string usage_event(int prompt, int completion) {
    return chat_event("{\"choices\":[],\"usage\":{\"prompt_tokens\":" + std::to_string(prompt) +
                      ",\"completion_tokens\":" + std::to_string(completion) + "}}");
}

/// Plays faults by the number of the request, and keeps the books of what it sent.
class Chaos {
  public:
    RawAnswer answer(int nth) {
        auto random = RandomStream::keyed(11, "chaos/" + std::to_string(nth));
        const int prompt = 100 + static_cast<int>(random.below(5000));
        const int completion = 1 + static_cast<int>(random.below(900));
        const double delay_s = 0.001 * static_cast<double>(random.below(20));
        if (storm > 0) {
            --storm;
            return http_answer(429, "text/plain", "storm", delay_s, {"Retry-After: 0"});
        }
        if (random.uniform() >= 0.2) {
            bill(prompt, completion);
            return {{delay_s, event_stream_head() + chat_delta("fine ")},
                    {0, chat_delta("answer") + chat_end(prompt, completion)}};
        }
        return fault(faults++ % kKinds, prompt, completion, delay_s);
    }

    static constexpr int kKinds = 25;
    double billed_usd = 0;
    int billed = 0;
    int faults = 0;
    int storm = 0;  ///< answers of a storm of 429 that are left

  private:
    void bill(int prompt, int completion) {
        billed_usd += prompt * kInput_usd + completion * kOutput_usd;
        ++billed;
    }

    RawAnswer fault(int kind, int prompt, int completion, double delay_s) {
        using Then = RawStep::Then;
        const std::string start = event_stream_head() + chat_delta("never to be joined");
        switch (kind) {
            case 0:
                return http_answer(429, "text/plain", "slow", delay_s, {"retry-after-ms: 20"});
            case 1:
                return http_answer(500, "text/html", "<html>oops</html>", delay_s);
            case 2:
                return http_answer(503, "application/json",
                                   error_reply(503, "busy", "engine_overloaded").body, delay_s);
            case 3:  // used, reported, and then an error within the stream
                bill(prompt, completion);
                return {{delay_s, start + usage_event(prompt, completion) +
                                      chat_event(R"({"error":{"message":"died","code":500}})") +
                                      chunk("")}};
            case 4:
                return {{delay_s, start, Then::kClose}};
            case 5:
                return {{0, start}, {0.02, "", Then::kReset}};
            case 6:
                return {{delay_s, "", Then::kReset}};
            case 7:
                return {{delay_s, start, Then::kHalfClose}};
            case 8:
                return {{delay_s, start + chat_event("{\"choices\":[{\"delta") + chunk("")}};
            case 9:
                return http_answer(200, "text/html", "<html>login</html>", delay_s);
            case 10:  // an empty answer is billed
                bill(prompt, completion);
                return {
                    {delay_s, event_stream_head() + chat_delta("") + chat_end(prompt, completion)}};
            case 11:  // reasoning ate the cap
                bill(prompt, completion);
                return {{delay_s, event_stream_head() + chat_end(prompt, completion, "length")}};
            case 12:
                return {{delay_s, start, Then::kHold}};
            case 13:
                return http_answer(302, "text/plain", "", delay_s, {"Location: /elsewhere"});
            case 14:
                return http_answer(400, "application/json",
                                   error_reply(400, "too long", "context_length_exceeded").body);
            case 15:  // an answer without usage: its cost is unknown, not nothing
                return {{delay_s, start + chat_end(-1, -1)}};
            case 16:
                return http_answer(200, "application/json",
                                   error_reply(200, "busy", "rate_limit_exceeded").body, delay_s);
            case 17:
                return {{delay_s, event_stream_head() + chat_delta("a\xff\xfe") +
                                      chat_end(prompt, completion)}};
            case 18:
                storm = 4;
                return http_answer(429, "text/plain", "storm", delay_s, {"Retry-After: 0"});
            case 19:  // ten megabytes that are no answer, and one that is
                return http_answer(200, "application/json",
                                   std::string(10U << 20U, prompt % 2 == 0 ? ' ' : 'x'), delay_s);
            case 20:
                bill(prompt, completion);
                return {{delay_s, event_stream_head() + chat_delta(std::string(1U << 20U, 'k')) +
                                      chat_end(prompt, completion)}};
            case 21:
                return http_answer(429, "application/json",
                                   error_reply(429, "pay first", "insufficient_quota").body);
            case 22:
                return http_answer(401, "application/json",
                                   error_reply(401, "who are you", "invalid_api_key").body);
            case 23:  // closed in the middle of the head
                return {{delay_s, "HTTP/1.1 200 OK\r\nContent-Ty", Then::kClose}};
            default: {
                bill(prompt, completion);
                RawAnswer trickle;
                const std::string text =
                    event_stream_head() + chat_delta("slow") + chat_end(prompt, completion);
                for (std::size_t i = 0; i < text.size(); i += 50) {
                    trickle.push_back({0.005, text.substr(i, 50)});
                }
                return trickle;
            }
        }
    }
};

/// Keeps no texts, so that memory is flat.
class RowLog : public MemoryLog {
  public:
    void record_reply(const Request&, const Reply&) override {}
};

std::ptrdiff_t open_files() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
}

/// Resident memory in MiB.
long resident_mib() {
    malloc_trim(0);
    std::ifstream file("/proc/self/statm");
    long total = 0;
    long resident = 0;
    file >> total >> resident;
    return resident * 4096 / (1 << 20);
}

}  // namespace

TEST_CASE("chaos: every call ends once, every request is a row, every cent is accounted for",
          "[N17][N18][N21][N22][N25]") {
    const char* asked = std::getenv("ACCELOPT_CHAOS_CALLS");
    const int calls = asked ? std::atoi(asked) : 500;
    constexpr int kInFlight = 128;
    const auto files_before = open_files();
    Chaos chaos;
    {
        RawServer server([&](const RawRequest&, int nth) { return chaos.answer(nth); });
        ModelOptions model;
        model.key = "m";
        model.provider = "openai";
        model.url = server.url();
        model.name = "org/m";
        model.api_key = Secret("sk-chaos-0123456789abcdef");
        model.timeout_s = 120;
        model.stall_timeout_s = 8;  // the server of this test shares a busy machine
        PriceTable prices;
        prices.set("org/m", price(2, 2, 4));
        const auto log = std::make_shared<RowLog>();
        const auto pacer = std::make_shared<CountingPacer>();
        pacer->tries_left = 1 << 30;
        Client client({{"m", model}}, {{"openai", make_openai_provider()}}, prices, nullptr, log,
                      pacer, system_clock(), 5, RetryOptions{0.01, 0.1});
        std::map<std::uint64_t, int> ends;
        std::map<LlmOutcome, int> outcomes;
        int submitted = 0;
        int bad_texts = 0;
        long warm_mib = 0;
        const double until = system_clock().monotonic_s() + 400;
        while (static_cast<int>(ends.size()) < calls && system_clock().monotonic_s() < until) {
            while (submitted < calls && client.in_flight() < kInFlight) {
                client.submit(make_request("u" + std::to_string(submitted++)));
            }
            for (const auto& done : client.poll(0.1)) {
                ++ends[done.id];
                ++outcomes[done.reply.outcome];
                const std::string& text = done.reply.text;
                const bool whole = text == "fine answer" || text == "slow" ||
                                   text == "never to be joined" || text.size() == 1U << 20U;
                if (done.reply.outcome == LlmOutcome::kOk && !whole) ++bad_texts;
            }
            if (warm_mib == 0 && static_cast<int>(ends.size()) > calls / 2)
                warm_mib = resident_mib();
        }
        CHECK(static_cast<int>(ends.size()) == calls);
        for (const auto& [id, count] : ends) {
            if (count != 1) FAIL("call " << id << " ended " << count << " times");
        }
        CHECK(bad_texts == 0);
        CHECK(client.in_flight() == 0);
        CHECK(pacer->open.empty());
        CHECK(static_cast<int>(log->rows.size()) == server.requests());
        double usd = 0;
        int priced = 0;
        for (const auto& row : log->rows) {
            usd += row.cost_usd.value_or(0);
            priced += row.cost_usd ? 1 : 0;
        }
        CHECK(usd == Approx(chaos.billed_usd).epsilon(1e-12));
        CHECK(pacer->usd == Approx(chaos.billed_usd).epsilon(1e-12));
        CHECK(priced == chaos.billed);
        CHECK(chaos.faults >= 2 * Chaos::kKinds);  // each kind at least twice
        // Only what is never tried again (overflow, quota, key) or failed six times is missing.
        CHECK(outcomes[LlmOutcome::kOk] > calls * 9 / 10);
        // The rows that the log of this test keeps are some 500 bytes each.
        CHECK(resident_mib() - warm_mib < 16 + calls / 1000);
        std::string summary;
        for (const auto& [outcome, count] : outcomes) {
            summary +=
                std::string(protocol::to_string(outcome)) + " " + std::to_string(count) + ", ";
        }
        WARN("chaos: " << calls << " calls, " << server.requests() << " requests, " << summary
                       << "$" << usd << ", resident " << warm_mib << " -> " << resident_mib()
                       << " MiB");
    }
    CHECK(open_files() == files_before);
}
