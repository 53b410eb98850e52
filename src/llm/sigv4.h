#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelopt::llm {

/// What AWS Signature Version 4 signs: a request and where it goes.
struct SigV4Request {
    std::string method;
    std::string path;  ///< as it stands in the address, percent-encoded; encoded once more here
    std::vector<std::pair<std::string, std::string>> query;  ///< not encoded
    std::map<std::string, std::string> headers;  ///< names in lower case; host and x-amz-date too
    std::string body;
};

struct SigV4Scope {
    std::string access_key;
    std::string secret_key;
    std::string region;
    std::string service;
    std::string timestamp;  ///< "20150830T123600Z"
};

/// The steps of the algorithm, each of which AWS publishes examples of.
std::string canonical_request(const SigV4Request& request);
std::string string_to_sign(const SigV4Request& request, const SigV4Scope& scope);
/// The signature as lower-case hexadecimal digits.
std::string sigv4_signature(const SigV4Request& request, const SigV4Scope& scope);
/// The value of the Authorization header.
std::string sigv4_authorization(const SigV4Request& request, const SigV4Scope& scope);

/// Percent-encodes everything but letters, digits, '-', '.', '_' and '~' (and '/' where
/// `keep_slash`).
std::string percent_encode(std::string_view text, bool keep_slash);

/// "20150830T123600Z" of seconds since 1970.
std::string amz_timestamp(double unix_s);

}  // namespace accelopt::llm
