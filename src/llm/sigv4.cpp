#include "llm/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>

#include "core/error.h"
#include "core/hash.h"

// AWS General Reference, "Create a signed AWS API request" (Signature Version 4).

namespace accelopt::llm {
namespace {

constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";

std::string hmac_sha256(std::string_view key, std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    const auto* bytes = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                             digest.data(), &length);
    require(bytes != nullptr, "HMAC");
    return {reinterpret_cast<const char*>(digest.data()), length};
}

std::string hex(std::string_view bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

/// Trims, and makes one blank of several.
std::string header_value(std::string_view text) {
    std::string value;
    for (const char c : text) {
        const bool is_blank = c == ' ' || c == '\t';
        if (is_blank && (value.empty() || value.back() == ' ')) continue;
        value += is_blank ? ' ' : c;
    }
    if (!value.empty() && value.back() == ' ') value.pop_back();
    return value;
}

std::string signed_headers(const SigV4Request& request) {
    std::string names;
    for (const auto& [name, value] : request.headers) names += (names.empty() ? "" : ";") + name;
    return names;
}

std::string credential_scope(const SigV4Scope& scope) {
    return scope.timestamp.substr(0, 8) + "/" + scope.region + "/" + scope.service +
           "/aws4_request";
}

}  // namespace

std::string percent_encode(std::string_view text, bool keep_slash) {
    static constexpr char kDigits[] = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = (byte < 0x80 && std::isalnum(byte)) || c == '-' || c == '.' ||
                           c == '_' || c == '~' || (keep_slash && c == '/');
        if (plain) {
            encoded += c;
        } else {
            encoded += '%';
            encoded += kDigits[byte >> 4];
            encoded += kDigits[byte & 15];
        }
    }
    return encoded;
}

std::string amz_timestamp(double unix_s) {
    const auto seconds = static_cast<std::time_t>(unix_s);
    std::tm date{};
    gmtime_r(&seconds, &date);
    std::array<char, 32> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &date);
    return {text.data(), length};
}

std::string canonical_request(const SigV4Request& request) {
    std::vector<std::pair<std::string, std::string>> query;
    for (const auto& [name, value] : request.query) {
        query.emplace_back(percent_encode(name, false), percent_encode(value, false));
    }
    std::sort(query.begin(), query.end());
    std::string text = request.method + "\n" +
                       (request.path.empty() ? "/" : percent_encode(request.path, true)) + "\n";
    for (std::size_t i = 0; i < query.size(); ++i) {
        text += (i > 0 ? "&" : "") + query[i].first + "=" + query[i].second;
    }
    text += "\n";
    for (const auto& [name, value] : request.headers) {
        text += name + ":" + header_value(value) + "\n";
    }
    return text + "\n" + signed_headers(request) + "\n" + sha256_hex(request.body);
}

std::string string_to_sign(const SigV4Request& request, const SigV4Scope& scope) {
    return std::string(kAlgorithm) + "\n" + scope.timestamp + "\n" + credential_scope(scope) +
           "\n" + sha256_hex(canonical_request(request));
}

std::string sigv4_signature(const SigV4Request& request, const SigV4Scope& scope) {
    std::string key = hmac_sha256("AWS4" + scope.secret_key, scope.timestamp.substr(0, 8));
    key = hmac_sha256(key, scope.region);
    key = hmac_sha256(key, scope.service);
    key = hmac_sha256(key, "aws4_request");
    return hex(hmac_sha256(key, string_to_sign(request, scope)));
}

std::string sigv4_authorization(const SigV4Request& request, const SigV4Scope& scope) {
    return std::string(kAlgorithm) + " Credential=" + scope.access_key + "/" +
           credential_scope(scope) + ", SignedHeaders=" + signed_headers(request) +
           ", Signature=" + sigv4_signature(request, scope);
}

}  // namespace accelopt::llm
