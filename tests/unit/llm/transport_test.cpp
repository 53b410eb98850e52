#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "llm/transport/curl_multi.h"
#include "support/raw_server.h"
#include "support/tls_server.h"

using namespace accelopt::llm;
using namespace accelopt::testing;
using Transport = HttpResponse::Transport;

namespace {

/// Sets variables of the environment for one test; "" takes one away.
class Variables {
  public:
    explicit Variables(const std::map<std::string, std::string>& values) {
        for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "no_proxy",
                                 "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"}) {
            const char* value = std::getenv(name);
            before_[name] = value ? value : "";
            set(name, "");
        }
        for (const auto& [name, value] : values) set(name, value);
    }
    ~Variables() {
        for (const auto& [name, value] : before_) set(name, value);
    }

  private:
    static void set(const std::string& name, const std::string& value) {
        if (value.empty()) {
            unsetenv(name.c_str());
        } else {
            setenv(name.c_str(), value.c_str(), 1);
        }
    }
    std::map<std::string, std::string> before_;
};

HttpResponse post(const std::string& url, const std::string& body = "{}") {
    HttpRequest request;
    request.id = 1;
    request.url = url;
    request.body = body;
    request.headers = {"Content-Type: application/json"};
    request.timeout_s = 10;
    CurlMulti transport;
    transport.start(std::move(request));
    std::vector<HttpResponse> done;
    for (int i = 0; i < 12 && done.empty(); ++i) transport.poll(1, done);
    REQUIRE(done.size() == 1);
    return done[0];
}

std::string first_line(const RawRequest& request) {
    return request.head.substr(0, request.head.find("\r\n"));
}

}  // namespace

TEST_CASE("an endpoint is reached through the proxy that http_proxy names") {
    std::vector<std::string> asked;
    RawServer proxy([&](const RawRequest& request, int) {
        asked.push_back(first_line(request));
        return http_answer(200, "application/json", "{\"through\":\"proxy\"}");
    });
    const std::string address = "http://127.0.0.1:" + std::to_string(proxy.port());
    const std::string url = "http://models.invalid/v1/chat/completions";
    {
        const Variables variables({{"http_proxy", address}});
        const auto response = post(url);
        CHECK(response.transport == Transport::kComplete);
        CHECK(response.body == "{\"through\":\"proxy\"}");
        CHECK(asked ==
              std::vector<std::string>{"POST http://models.invalid/v1/chat/completions HTTP/1.1"});
    }
    {
        const Variables variables({{"http_proxy", address}, {"no_proxy", "models.invalid"}});
        CHECK(post(url).transport == Transport::kConnection);
        CHECK(proxy.requests() == 1);
    }
}

TEST_CASE("an https endpoint is tunnelled, and a proxy that refuses is no answer of the model") {
    std::vector<std::string> asked;
    RawServer proxy([&](const RawRequest& request, int) {
        asked.push_back(first_line(request));
        return http_answer(403, "text/plain", "not through here", 0, {"Retry-After: 999"});
    });
    const Variables variables(
        {{"https_proxy", "http://127.0.0.1:" + std::to_string(proxy.port())}});
    const auto response = post("https://models.invalid/v1");
    CHECK(response.transport == Transport::kConnection);
    CHECK(response.status == 0);
    CHECK(response.headers.empty());
    CHECK(response.error.find("403") != std::string::npos);
    CHECK(asked.at(0) == "CONNECT models.invalid:443 HTTP/1.1");
}

TEST_CASE("a model served on this machine is never reached through a proxy") {
    RawServer proxy([](const RawRequest&, int) { return http_answer(500, "text/plain", "no"); });
    RawServer model([](const RawRequest&, int) { return http_answer(200, "text/plain", "yes"); });
    const Variables variables({{"http_proxy", "http://127.0.0.1:" + std::to_string(proxy.port())}});
    CHECK(post(model.url()).body == "yes");
    CHECK(proxy.requests() == 0);
}

TEST_CASE("a server is trusted by the bundle that CURL_CA_BUNDLE names, and not without it") {
    namespace fs = std::filesystem;
    const fs::path folder =
        fs::temp_directory_path() / ("accelopt-tls-" + std::to_string(getpid()));
    fs::create_directories(folder);
    {
        TlsServer server(folder.string(), "{\"tls\":true}");
        {
            const Variables variables({});
            const auto response = post(server.url());
            CHECK(response.transport == Transport::kUntrusted);
            CHECK(response.body.empty());
            CHECK(server.requests() == 0);
        }
        for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
            const Variables variables({{name, server.certificate_path()}});
            const auto response = post(server.url());
            INFO(response.error);
            CHECK(response.transport == Transport::kComplete);
            CHECK(response.body == "{\"tls\":true}");
        }
        CHECK(server.requests() == 2);
        // A server that speaks HTTP/2 would be spoken to in it.
        const auto offered = server.offered();
        CHECK(std::find(offered.begin(), offered.end(), "h2") != offered.end());
        CHECK(std::find(offered.begin(), offered.end(), "http/1.1") != offered.end());
    }
    fs::remove_all(folder);
}

TEST_CASE("a kept connection that dies under a request is not silently asked again") {
    // The second request on a connection is read, and never answered.
    RawServer server([](const RawRequest&, int nth) -> RawAnswer {
        if (nth == 0) return http_answer(200, "text/plain", "one");
        if (nth == 1) return {{0, "", RawStep::Then::kReset}};
        return http_answer(200, "text/plain", "again");
    });
    CurlMulti transport;
    const auto ask = [&](std::uint64_t id) {
        HttpRequest request;
        request.id = id;
        request.url = server.url();
        request.body = std::string(3000, 'x');
        request.timeout_s = 10;
        transport.start(std::move(request));
        std::vector<HttpResponse> done;
        for (int i = 0; i < 12 && done.empty(); ++i) transport.poll(1, done);
        REQUIRE(done.size() == 1);
        return done[0];
    };
    CHECK(ask(1).body == "one");
    CHECK(ask(2).transport == Transport::kConnection);
    CHECK(server.requests() == 2);
    CHECK(ask(3).body == "again");
    CHECK(server.requests() == 3);
}
