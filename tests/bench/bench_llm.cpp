// Calls per second and CPU per call of one worker's client against a local server with a fixed
// latency: bench_llm [in flight] [seconds per row].
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/clock.h"
#include "llm/client.h"
#include "llm/openai.h"
#include "support/raw_server.h"

using namespace accelopt;

namespace {

double thread_cpu_s() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

llm::Request make_request(int number) {
    llm::Request request;
    request.unit_id = "unit-" + std::to_string(number);
    request.model = "m";
    request.messages = {{"system", std::string(4000, 's')}, {"user", std::string(8000, 'u')}};
    return request;
}

void measure(int in_flight, double latency_s, double seconds) {
    const std::string answer = testing::event_stream_head() +
                               testing::chat_delta(std::string(4000, 'k')) +
                               testing::chat_end(4000, 1300);
    testing::RawServer server([&](const testing::RawRequest&, int) {
        return testing::RawAnswer{{latency_s, answer}};
    });
    llm::ModelOptions model;
    model.key = "m";
    model.provider = "openai";
    model.url = server.url();
    model.name = "m";
    llm::Client client({{"m", model}}, {{"openai", llm::make_openai_provider()}}, {}, nullptr,
                       nullptr, nullptr, system_clock(), 1);
    Clock& clock = system_clock();
    int number = 0;
    long done = 0;
    long failed = 0;
    double tries_s = 0;
    const double begin = clock.monotonic_s();
    const auto turn = [&] {
        // The first calls are spread over one latency: in phase, all would end in the same instant,
        // and what is measured is how long a burst waits for one thread.
        const double ramp = latency_s > 0 ? (clock.monotonic_s() - begin) / latency_s : 1;
        const int wanted = static_cast<int>(in_flight * std::min(1.0, ramp));
        while (client.in_flight() < wanted) client.submit(make_request(number++));
        for (const auto& completion : client.poll(0.002)) {
            ++done;
            tries_s += completion.reply.tries.back().latency_s;
            if (completion.reply.outcome != protocol::LlmOutcome::kOk) ++failed;
        }
    };
    const double warm = clock.monotonic_s() + 1 + 2 * latency_s;
    while (clock.monotonic_s() < warm) turn();
    done = 0;
    tries_s = 0;
    const double start = clock.monotonic_s();
    const double cpu = thread_cpu_s();
    while (clock.monotonic_s() < start + seconds) turn();
    const double wall_s = clock.monotonic_s() - start;
    const double cpu_s = thread_cpu_s() - cpu;
    const double rate = static_cast<double>(done) / wall_s;
    std::printf("%8d %9.0f ms %12.0f %14.1f %10.1f %11.1f", in_flight, latency_s * 1e3, rate,
                cpu_s / static_cast<double>(done) * 1e6, cpu_s / wall_s * 100,
                tries_s / static_cast<double>(done) * 1e3);
    if (latency_s > 0) std::printf(" %9.1f %%", rate / (in_flight / latency_s) * 100);
    std::printf("%s\n", failed > 0 ? "   FAILURES" : "");
}

}  // namespace

int main(int argc, char** argv) {
    const int in_flight = argc > 1 ? std::atoi(argv[1]) : 256;
    const double seconds = argc > 2 ? std::atof(argv[2]) : 10;
    if (in_flight < 1 || !(seconds > 0)) {
        std::fprintf(stderr, "usage: bench_llm [in flight] [seconds per row]\n");
        return 2;
    }
    std::printf("in flight   latency     calls/s   CPU us/call      CPU %%  ms per try  of the ideal\n");
    measure(in_flight, 0, seconds);
    measure(in_flight, 0.2, seconds);
    return 0;
}
