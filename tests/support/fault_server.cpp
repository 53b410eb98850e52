#include "support/fault_server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

namespace accelopt::testing {
namespace {

using nlohmann::json;

std::string message_of(const std::string& request_body, const std::string& role) {
    const json request = json::parse(request_body, nullptr, false);
    std::string text;
    if (!request.is_object()) return text;
    for (const auto& message : request.value("messages", json::array())) {
        if (message.value("role", "") == role) text = message.value("content", "");
    }
    return text;
}

}  // namespace

namespace {

json usage_json(const ChatUsage& usage) {
    json counts = json::object();
    if (usage.prompt >= 0) counts["prompt_tokens"] = usage.prompt;
    if (usage.completion >= 0) counts["completion_tokens"] = usage.completion;
    if (usage.cached >= 0) counts["prompt_tokens_details"] = {{"cached_tokens", usage.cached}};
    if (usage.reasoning >= 0) {
        counts["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning}};
    }
    return counts;
}

}  // namespace

ScriptedReply chat_reply(const std::string& text, const ChatUsage& usage,
                         const std::string& finish_reason) {
    json body = {{"id", "chatcmpl-1"},
                 {"object", "chat.completion"},
                 {"choices",
                  {{{"index", 0},
                    {"message", {{"role", "assistant"}, {"content", text}}},
                    {"finish_reason", finish_reason}}}}};
    const json counts = usage_json(usage);
    if (!counts.empty()) body["usage"] = counts;
    ScriptedReply reply;
    reply.body = body.dump();
    return reply;
}

ScriptedReply stream_reply(const std::string& text, const ChatUsage& usage,
                           const std::string& finish_reason, int pieces) {
    ScriptedReply reply;
    reply.content_type = "text/event-stream";
    const auto event = [&reply](const json& data) {
        reply.body += "data: " + data.dump(-1, ' ', false, json::error_handler_t::replace) + "\n\n";
    };
    const std::size_t count = static_cast<std::size_t>(std::max(1, pieces));
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = text.size() * i / count;
        const std::size_t end = text.size() * (i + 1) / count;
        event({{"choices",
                {{{"index", 0},
                  {"delta", {{"content", text.substr(begin, end - begin)}}},
                  {"finish_reason", nullptr}}}}});
    }
    if (finish_reason.empty()) return reply;
    event({{"choices",
            {{{"index", 0}, {"delta", json::object()}, {"finish_reason", finish_reason}}}}});
    const json counts = usage_json(usage);
    if (!counts.empty()) event({{"choices", json::array()}, {"usage", counts}});
    reply.body += "data: [DONE]\n\n";
    return reply;
}

ScriptedReply error_reply(int status, const std::string& message, const std::string& code) {
    json error = {{"message", message}};
    if (!code.empty()) error["code"] = code;
    ScriptedReply reply;
    reply.status = status;
    reply.body = json{{"error", error}}.dump();
    return reply;
}

std::string last_user_message(const std::string& request_body) {
    return message_of(request_body, "user");
}

std::string system_message(const std::string& request_body) {
    return message_of(request_body, "system");
}

struct FaultServer::State {
    Answer answer;
    httplib::Server server;
    int port = 0;
    std::thread thread;
    mutable std::mutex mutex;
    std::condition_variable stopping;
    bool stop = false;
    int answered = 0;
    std::vector<RecordedRequest> requests;

    void handle(const httplib::Request& request, httplib::Response& response);
};

void FaultServer::State::handle(const httplib::Request& request, httplib::Response& response) {
    ScriptedReply reply;
    {
        std::unique_lock lock(mutex);
        RecordedRequest record;
        record.path = request.path;
        record.body = request.body;
        for (const auto& [name, value] : request.headers) {
            std::string lower = name;
            std::transform(lower.begin(), lower.end(), lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            record.headers[lower] = value;
        }
        requests.push_back(std::move(record));
        reply = answer(request.body, answered++);
        if (reply.delay_s > 0) {
            stopping.wait_for(lock, std::chrono::duration<double>(reply.delay_s),
                              [this] { return stop; });
        }
    }
    response.status = reply.status;
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    if (!reply.break_off) {
        response.set_content(reply.body, reply.content_type.c_str());
        return;
    }
    const std::string part = reply.body.substr(0, reply.body.size() / 2);
    response.set_content_provider(reply.body.size(), reply.content_type.c_str(),
                                  [part](std::size_t offset, std::size_t, httplib::DataSink& sink) {
                                      if (offset > 0) return false;
                                      return sink.write(part.data(), part.size());
                                  });
}

FaultServer::FaultServer(Answer answer) : state_(std::make_unique<State>()) {
    state_->answer = std::move(answer);
    // Every kept-alive connection holds one of these threads.
    state_->server.new_task_queue = [] { return new httplib::ThreadPool(96); };
    state_->server.set_keep_alive_timeout(1);
    state_->server.set_tcp_nodelay(true);
    state_->server.Post(".*", [state = state_.get()](const auto& request, auto& response) {
        state->handle(request, response);
    });
    state_->server.Get(".*", [state = state_.get()](const auto& request, auto& response) {
        state->handle(request, response);
    });
    state_->port = state_->server.bind_to_any_port("127.0.0.1");
    if (state_->port <= 0) throw std::runtime_error("the test server found no free port");
    state_->thread = std::thread([state = state_.get()] { state->server.listen_after_bind(); });
    while (!state_->server.is_running()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

FaultServer::FaultServer(std::vector<ScriptedReply> script)
    : FaultServer([script = std::move(script)](const std::string&, int nth) {
          return script.at(std::min<std::size_t>(nth, script.size() - 1));
      }) {}

FaultServer::~FaultServer() {
    {
        std::lock_guard lock(state_->mutex);
        state_->stop = true;
    }
    state_->stopping.notify_all();
    state_->server.stop();
    state_->thread.join();
}

std::string FaultServer::url() const {
    return "http://127.0.0.1:" + std::to_string(state_->port) + "/v1";
}

std::vector<RecordedRequest> FaultServer::requests() const {
    std::lock_guard lock(state_->mutex);
    return state_->requests;
}

std::string refused_url() {
    // A port that was just free, and is not listened on.
    const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    const bool bound =
        socket_fd >= 0 &&
        bind(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
        getsockname(socket_fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    if (socket_fd >= 0) close(socket_fd);
    if (!bound) throw std::runtime_error("no free port");
    return "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/v1";
}

}  // namespace accelopt::testing
