#pragma once

#include <memory>

#include "core/clock.h"
#include "llm/provider.h"
#include "llm/reply_reader.h"
#include "llm/transport/curl_multi.h"

namespace accelopt::llm {

/// What sets one model service apart from another: how a question is written and an answer read.
/// Everything else (connections, time-outs, server waits, scrubbing) is the HTTP provider's.
class Dialect {
  public:
    virtual ~Dialect() = default;
    /// Fills address, headers and body. `now_unix_s` is for services that sign the time.
    virtual HttpRequest write_request(const ModelOptions& model, const Request& request,
                                      double now_unix_s) const = 0;
    /// Makes the reader of one 2xx answer.
    virtual std::unique_ptr<ReplyReader> make_reader(const ModelOptions& model) const = 0;
    /// Fills outcome and error from an answer other than 2xx.
    virtual void read_error(const HttpResponse& response, TryResult& result) const;
};

/// Makes a provider that speaks this dialect. The clock's date is what a Retry-After date is
/// measured from when the server sends no Date of its own.
std::shared_ptr<Provider> make_http_provider(std::unique_ptr<Dialect> dialect, Clock& clock);

/// Takes the keys of the model out of everything that is kept (a server may well repeat them), and
/// cuts the error to a length fit for a ledger row.
void scrub(const ModelOptions& model, TryResult& result);

/// Joins a base address and a path, unless the base ends with the path already.
std::string join_url(std::string base, const std::string& path);

}  // namespace accelopt::llm
