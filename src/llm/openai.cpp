#include "llm/openai.h"

#include <utility>

#include "llm/http_provider.h"
#include "llm/openai_reply.h"

namespace accelopt::llm {
namespace {

class OpenAiDialect : public Dialect {
  public:
    HttpRequest write_request(const ModelOptions& model, const Request& request,
                              double) const override {
        HttpRequest http;
        http.url = join_url(model.url, "/chat/completions");
        http.headers = {"Content-Type: application/json",
                        model.stream ? "Accept: text/event-stream" : "Accept: application/json"};
        if (!model.api_key.empty()) {
            http.headers.push_back("Authorization: Bearer " + model.api_key.reveal());
        }
        http.body = openai_request_body(model, request);
        return http;
    }

    std::unique_ptr<ReplyReader> make_reader(const ModelOptions&) const override {
        return make_openai_reader();
    }
};

}  // namespace

std::shared_ptr<Provider> make_openai_provider(Clock& clock) {
    return make_http_provider(std::make_unique<OpenAiDialect>(), clock);
}

}  // namespace accelopt::llm
