#include "support/raw_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <map>
#include <queue>
#include <stdexcept>
#include <thread>
#include <utility>

namespace accelopt::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

void check(bool good, const char* what) {
    if (!good) throw std::runtime_error(what);
}

std::string json_string(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        if (c == '\n') {
            quoted += "\\n";
        } else {
            quoted += c;
        }
    }
    return quoted + "\"";
}

/// The value of Content-Length in a request's head; 0 when absent.
std::size_t content_length(const std::string& head) {
    static const std::string kName = "content-length:";
    const auto at = std::search(
        head.begin(), head.end(), kName.begin(), kName.end(),
        [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
    if (at == head.end()) return 0;
    return std::strtoul(&*at + kName.size(), nullptr, 10);
}

}  // namespace

RawAnswer http_answer(int status, const std::string& content_type, const std::string& body,
                      double delay_s, const std::vector<std::string>& headers) {
    std::string text = "HTTP/1.1 " + std::to_string(status) +
                       " X\r\nContent-Type: " + content_type +
                       "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
    for (const auto& header : headers) text += header + "\r\n";
    return {{delay_s, text + "\r\n" + body, RawStep::Then::kGoOn}};
}

std::string event_stream_head() {
    return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
           "chunked\r\n\r\n";
}

std::string chunk(const std::string& bytes) {
    std::array<char, 20> size{};
    std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
    return size.data() + bytes + "\r\n";
}

std::string chat_event(const std::string& json) { return chunk("data: " + json + "\n\n"); }

std::string chat_delta(const std::string& text) {
    return chat_event("{\"choices\":[{\"index\":0,\"delta\":{\"content\":" + json_string(text) +
                      "},\"finish_reason\":null}]}");
}

std::string chat_end(std::int64_t prompt, std::int64_t completion, const std::string& finish) {
    std::string text = chat_event("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" +
                                  finish + "\"}]}");
    if (prompt >= 0) {
        text +=
            chat_event("{\"choices\":[],\"usage\":{\"prompt_tokens\":" + std::to_string(prompt) +
                       ",\"completion_tokens\":" + std::to_string(completion) +
                       ",\"total_tokens\":" + std::to_string(prompt + completion) + "}}");
    }
    return text + chat_event("[DONE]") + chunk("");
}

struct RawServer::State {
    struct Connection {
        std::uint64_t serial = 0;  ///< tells a descriptor's reuse apart
        std::string input;
        std::string output;
        std::size_t sent = 0;  ///< of `output`
        RawAnswer answer;
        std::size_t step = 0;
        bool answering = false;
        RawStep::Then after = RawStep::Then::kGoOn;  ///< once `output` is out
        bool writable_wanted = false;
    };
    struct Timer {
        SteadyClock::time_point due;
        int fd;
        std::uint64_t serial;
        bool operator>(const Timer& other) const { return due > other.due; }
    };

    Answer answer;
    int listener = -1;
    int epoll = -1;
    int wake = -1;
    int port = 0;
    std::thread thread;
    std::atomic<bool> stop{false};
    std::atomic<int> requests{0};
    std::atomic<int> accepted{0};
    std::map<int, Connection> connections;
    std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers;
    std::uint64_t next_serial = 1;

    void open();
    void serve();
    void watch(int fd, bool write, bool add);
    void accept_all();
    void read_some(int fd);
    void next_request(int fd);
    void run_step(int fd);
    void write_some(int fd);
    void close_connection(int fd, bool reset);
};

void RawServer::State::open() {
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    check(listener >= 0 && bind(listener, plain, length) == 0 && listen(listener, 4096) == 0 &&
              getsockname(listener, plain, &length) == 0,
          "the test server found no free port");
    port = ntohs(address.sin_port);
    epoll = epoll_create1(0);
    wake = eventfd(0, EFD_NONBLOCK);
    check(epoll >= 0 && wake >= 0, "epoll");
    watch(listener, false, true);
    watch(wake, false, true);
}

void RawServer::State::watch(int fd, bool write, bool add) {
    epoll_event event{};
    event.events = EPOLLIN | (write ? EPOLLOUT : 0U);
    event.data.fd = fd;
    epoll_ctl(epoll, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
}

void RawServer::State::serve() {
    std::array<epoll_event, 256> events{};
    while (!stop) {
        int wait_ms = 1000;
        if (!timers.empty()) {
            const std::chrono::duration<double, std::milli> left =
                timers.top().due - SteadyClock::now();
            wait_ms = std::clamp(static_cast<int>(left.count() + 0.999), 0, 1000);
        }
        const int count =
            epoll_wait(epoll, events.data(), static_cast<int>(events.size()), wait_ms);
        for (int i = 0; i < count; ++i) {
            const int fd = events[static_cast<std::size_t>(i)].data.fd;
            const auto what = events[static_cast<std::size_t>(i)].events;
            if (fd == wake) continue;
            if (fd == listener) {
                accept_all();
                continue;
            }
            if ((what & EPOLLOUT) != 0 && connections.contains(fd)) write_some(fd);
            if ((what & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && connections.contains(fd)) {
                read_some(fd);
            }
        }
        while (!timers.empty() && timers.top().due <= SteadyClock::now()) {
            const Timer timer = timers.top();
            timers.pop();
            const auto at = connections.find(timer.fd);
            if (at != connections.end() && at->second.serial == timer.serial) run_step(timer.fd);
        }
    }
}

void RawServer::State::accept_all() {
    for (;;) {
        const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
        if (fd < 0) return;
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        connections[fd].serial = next_serial++;
        ++accepted;
        watch(fd, false, true);
    }
}

void RawServer::State::read_some(int fd) {
    std::array<char, 65536> buffer;
    for (;;) {
        const auto count = recv(fd, buffer.data(), buffer.size(), 0);
        if (count > 0) {
            connections[fd].input.append(buffer.data(), static_cast<std::size_t>(count));
            if (count == static_cast<ssize_t>(buffer.size())) continue;
        } else if (count == 0 || errno != EAGAIN) {
            close_connection(fd, false);
            return;
        }
        break;
    }
    if (!connections[fd].answering) next_request(fd);
}

void RawServer::State::next_request(int fd) {
    Connection& connection = connections[fd];
    const auto head = connection.input.find("\r\n\r\n");
    if (head == std::string::npos) return;
    RawRequest request;
    request.head = connection.input.substr(0, head + 2);
    const std::size_t length = content_length(request.head);
    if (connection.input.size() < head + 4 + length) return;
    request.body = connection.input.substr(head + 4, length);
    connection.input.erase(0, head + 4 + length);
    connection.answer = answer(request, requests++);
    connection.step = 0;
    connection.answering = true;
    if (connection.answer.empty()) {
        close_connection(fd, false);
    } else if (connection.answer[0].delay_s > 0) {
        timers.push(
            {SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                      std::chrono::duration<double>(connection.answer[0].delay_s)),
             fd, connection.serial});
    } else {
        run_step(fd);
    }
}

void RawServer::State::run_step(int fd) {
    Connection& connection = connections[fd];
    connection.output += connection.answer[connection.step].bytes;
    connection.after = connection.answer[connection.step].then;
    ++connection.step;
    write_some(fd);
}

void RawServer::State::write_some(int fd) {
    Connection& connection = connections[fd];
    while (connection.sent < connection.output.size()) {
        const auto count = send(fd, connection.output.data() + connection.sent,
                                connection.output.size() - connection.sent, MSG_NOSIGNAL);
        if (count < 0) {
            if (errno != EAGAIN) {
                close_connection(fd, false);
            } else if (!std::exchange(connection.writable_wanted, true)) {
                watch(fd, true, false);
            }
            return;
        }
        connection.sent += static_cast<std::size_t>(count);
    }
    std::string().swap(connection.output);  // its memory too
    connection.sent = 0;
    if (std::exchange(connection.writable_wanted, false)) watch(fd, false, false);
    if (!connection.answering) return;
    switch (connection.after) {
        case RawStep::Then::kClose:
            close_connection(fd, false);
            return;
        case RawStep::Then::kReset:
            close_connection(fd, true);
            return;
        case RawStep::Then::kHalfClose:
            shutdown(fd, SHUT_WR);
            return;
        case RawStep::Then::kHold:
            return;
        case RawStep::Then::kGoOn:
            break;
    }
    if (connection.step < connection.answer.size()) {
        const double delay_s = connection.answer[connection.step].delay_s;
        timers.push({SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                              std::chrono::duration<double>(delay_s)),
                     fd, connection.serial});
        return;
    }
    connection.answering = false;
    connection.answer = {};
    if (!connection.input.empty()) next_request(fd);
}

void RawServer::State::close_connection(int fd, bool reset) {
    if (reset) {
        const linger hard{1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    }
    connections.erase(fd);
    close(fd);
}

RawServer::RawServer(Answer answer) : state_(std::make_unique<State>()) {
    state_->answer = std::move(answer);
    state_->open();
    state_->thread = std::thread([state = state_.get()] { state->serve(); });
}

RawServer::~RawServer() {
    state_->stop = true;
    const std::uint64_t one = 1;
    if (write(state_->wake, &one, sizeof(one)) < 0) std::abort();
    state_->thread.join();
    for (const auto& [fd, connection] : state_->connections) close(fd);
    close(state_->listener);
    close(state_->epoll);
    close(state_->wake);
}

int RawServer::port() const { return state_->port; }
std::string RawServer::url() const {
    return "http://127.0.0.1:" + std::to_string(state_->port) + "/v1";
}
int RawServer::requests() const { return state_->requests; }
int RawServer::connections() const { return state_->accepted; }

}  // namespace accelopt::testing
