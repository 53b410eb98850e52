#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>

#include "core/error.h"
#include "core/hash.h"
#include "eval/evaluator.h"
#include "eval/evaluator_process.h"

namespace accelopt::eval {

namespace {

using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;
using Moment = std::chrono::steady_clock::time_point;

/// A reply longer than this is not one.
constexpr std::size_t kMaxReplyBytes = 64u << 20;
/// Room of a child beyond the kernel's own budget: Python, numpy's temporaries, libraries.
constexpr std::int64_t kProcessBytes = std::int64_t{4} << 30;
/// How long an idle child gets to end by itself once its input is closed.
constexpr double kGrace_s = 0.5;
/// How long a child that closed its output gets to end before it is killed.
constexpr double kEndWait_s = 2;
constexpr int kMaxAttempts = 2;

std::chrono::duration<double> seconds(double s) { return std::chrono::duration<double>(s); }

std::string default_program() {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    return (self.parent_path() / "accelopt-eval").string();
}

struct Job {
    EvaluationRequest request;
    int attempt = 0;
};

struct Slot {
    std::unique_ptr<EvaluatorProcess> process;
    std::optional<Job> job;
    Moment started;
    Moment deadline;
};

EvaluationReply failed_reply(const EvaluationRequest& request, Outcome outcome,
                             const std::string& reason, const std::string& code,
                             const std::string& message) {
    EvaluationReply reply;
    reply.id = request.id;
    reply.problem = request.problem;
    reply.target = request.target;
    reply.source_sha256 = sha256_hex(request.source);
    reply.outcome = outcome;
    reply.reason = reason;
    reply.accelopt_version = ACCELOPT_VERSION;
    protocol::Diagnostic diagnostic;
    diagnostic.code = code;
    diagnostic.message = message;
    reply.diagnostics.push_back(std::move(diagnostic));
    return reply;
}

/// The start of what a child said instead of a reply, fit for a message.
std::string excerpt(const std::string& text) {
    std::string out;
    for (const char c : text.substr(0, 120)) {
        out += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
    }
    return text.size() > 120 ? out + "..." : out;
}

}  // namespace

struct EvaluatorPool::State {
    PoolOptions options;
    std::vector<std::string> arguments;
    std::vector<Slot> slots;
    std::deque<Job> queue;
    std::vector<EvaluationReply> done;

    void dispatch();
    void wait_for_events(double wait_s);
    void serve(Slot& slot);
    void handle_line(Slot& slot, const std::string& line);
    void handle_protocol_error(Slot& slot, std::string said);
    void handle_end(Slot& slot);
    void handle_deadline(Slot& slot);
    void finish(Slot& slot, EvaluationReply reply);
    void close_down();
};

void EvaluatorPool::State::dispatch() {
    for (Slot& slot : slots) {
        if (queue.empty()) return;
        if (slot.job) continue;
        if (slot.process && slot.process->reap(0)) slot.process.reset();
        if (!slot.process) slot.process = EvaluatorProcess::start(options.program, arguments);
        slot.job = std::move(queue.front());
        queue.pop_front();
        const EvaluationRequest& request = slot.job->request;
        const std::int64_t private_cache =
            options.cache_directory.empty() ? options.cache_bytes : 0;
        slot.process->limit_memory(request.limits.memory_bytes + private_cache + kProcessBytes);
        slot.process->send(to_json(request) + "\n");
        slot.started = std::chrono::steady_clock::now();
        slot.deadline = slot.started + std::chrono::duration_cast<Moment::duration>(
                                           seconds(std::min(request.limits.wall_s, 1e7)));
    }
}

void EvaluatorPool::State::wait_for_events(double wait_s) {
    std::vector<pollfd> fds;
    std::vector<Slot*> readers, writers;
    Moment wake = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<Moment::duration>(seconds(std::max(0.0, wait_s)));
    for (Slot& slot : slots) {
        if (!slot.process) continue;
        fds.push_back({slot.process->output(), POLLIN, 0});
        readers.push_back(&slot);
        if (slot.job) wake = std::min(wake, slot.deadline);
    }
    for (Slot& slot : slots) {
        if (!slot.process || !slot.process->has_pending()) continue;
        fds.push_back({slot.process->input(), POLLOUT, 0});
        writers.push_back(&slot);
    }
    const auto left =
        std::chrono::duration<double, std::milli>(wake - std::chrono::steady_clock::now());
    const double timeout_ms = std::clamp(std::ceil(left.count()), 0.0, 1e6);
    if (::poll(fds.data(), fds.size(), static_cast<int>(timeout_ms)) > 0) {
        for (std::size_t i = 0; i < writers.size(); ++i) {
            if (fds[readers.size() + i].revents != 0) writers[i]->process->write_some();
        }
        for (std::size_t i = 0; i < readers.size(); ++i) {
            if (fds[i].revents != 0) serve(*readers[i]);
        }
    }
    const Moment now = std::chrono::steady_clock::now();
    for (Slot& slot : slots) {
        if (slot.job && now >= slot.deadline) handle_deadline(slot);
    }
}

void EvaluatorPool::State::serve(Slot& slot) {
    const bool open = slot.process->read_some();
    if (auto line = slot.process->take_line()) {
        handle_line(slot, *line);
    } else if (slot.process->unread_bytes() > kMaxReplyBytes) {
        handle_protocol_error(slot, excerpt(slot.process->unread()));
    } else if (!open) {
        handle_end(slot);
    }
}

void EvaluatorPool::State::handle_line(Slot& slot, const std::string& line) {
    if (!slot.job) {  // it speaks unasked: not to be trusted with a request
        slot.process.reset();
        return;
    }
    auto reply = protocol::parse_evaluation_reply(line);
    const bool answers = reply.ok() && reply->id == slot.job->request.id;
    if (!answers || slot.process->unread_bytes() > 0) {
        handle_protocol_error(slot, line);
        return;
    }
    finish(slot, std::move(*reply));
}

void EvaluatorPool::State::handle_protocol_error(Slot& slot, std::string said) {
    slot.process.reset();
    if (!slot.job) return;
    finish(slot, failed_reply(slot.job->request, Outcome::kEvaluatorError, "protocol", "protocol",
                              "the evaluator did not answer this request in one JSON line: " +
                                  excerpt(said)));
}

void EvaluatorPool::State::handle_end(Slot& slot) {
    const std::unique_ptr<EvaluatorProcess> process = std::move(slot.process);
    if (!process->reap(kEndWait_s)) process->kill();
    if (!slot.job) return;
    const std::string how = process->end_description();
    finish(slot, failed_reply(slot.job->request, Outcome::kCrashed, how, "crashed",
                              "the evaluator process ended without an answer: " + how));
}

void EvaluatorPool::State::handle_deadline(Slot& slot) {
    slot.process.reset();  // SIGKILL; a fresh process serves the retry
    Job& job = *slot.job;
    if (++job.attempt < kMaxAttempts) {
        queue.push_front(std::move(job));
        slot.job.reset();
        return;
    }
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g", job.request.limits.wall_s);
    finish(slot, failed_reply(job.request, Outcome::kTimeout, "wall_clock", "timeout",
                              "no answer within " + std::string(limit) + " s, in " +
                                  std::to_string(kMaxAttempts) + " attempts"));
}

void EvaluatorPool::State::finish(Slot& slot, EvaluationReply reply) {
    if (reply.cost.wall_s == 0) {
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - slot.started;
        reply.cost.wall_s = spent.count();
    }
    slot.job.reset();
    done.push_back(std::move(reply));
}

void EvaluatorPool::State::close_down() {
    for (Slot& slot : slots) {
        if (slot.process && !slot.job) slot.process->close_input();
    }
    double grace_s = kGrace_s;
    for (Slot& slot : slots) {
        if (slot.process && !slot.job && !slot.process->reap(grace_s)) grace_s = 0;
        slot.process.reset();
    }
}

EvaluatorPool::EvaluatorPool(PoolOptions options) : state_(std::make_unique<State>()) {
    if (options.program.empty()) options.program = default_program();
    if (options.slots < 1) {
        throw Error(ErrorSource::kConfig, "evaluator_slots", "an evaluator pool needs a slot");
    }
    if (access(options.program.c_str(), X_OK) != 0) {
        throw Error(ErrorSource::kConfig, "evaluator_program",
                    "no executable evaluator at " + options.program);
    }
    if (!options.cache_directory.empty()) {
        std::error_code error;
        std::filesystem::create_directories(options.cache_directory, error);
        if (!std::filesystem::is_directory(options.cache_directory)) {
            throw Error(ErrorSource::kConfig, "cache_directory",
                        "cannot make the reference cache folder: " + error.message() + ": " +
                            options.cache_directory);
        }
        state_->arguments = {"--cache", options.cache_directory};
    }
    state_->arguments.push_back("--cache-bytes");
    state_->arguments.push_back(std::to_string(options.cache_bytes));
    state_->slots.resize(static_cast<std::size_t>(options.slots));
    state_->options = std::move(options);
}

EvaluatorPool::~EvaluatorPool() { state_->close_down(); }

void EvaluatorPool::submit(protocol::EvaluationRequest request) {
    const double wall_s = request.limits.wall_s;
    if (!std::isfinite(wall_s) || wall_s <= 0) {
        state_->done.push_back(failed_reply(request, Outcome::kEvaluatorError, "bad_request",
                                            "bad_request", "limits.wall_s must be positive"));
        return;
    }
    state_->queue.push_back({std::move(request), 0});
}

std::vector<protocol::EvaluationReply> EvaluatorPool::poll(double wait_s) {
    const Moment until =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<Moment::duration>(seconds(std::clamp(wait_s, 0.0, 1e7)));
    for (;;) {
        state_->dispatch();
        const std::chrono::duration<double> left = until - std::chrono::steady_clock::now();
        const bool wait = state_->done.empty() && in_flight() > 0;
        state_->wait_for_events(wait ? left.count() : 0);
        if (!state_->done.empty() || left.count() <= 0 || in_flight() == 0) break;
    }
    state_->dispatch();  // keep freed slots busy while the caller works
    return std::exchange(state_->done, {});
}

int EvaluatorPool::in_flight() const {
    int count = static_cast<int>(state_->queue.size());
    for (const Slot& slot : state_->slots) count += slot.job ? 1 : 0;
    return count;
}

int EvaluatorPool::slots() const { return static_cast<int>(state_->slots.size()); }

}  // namespace accelopt::eval
