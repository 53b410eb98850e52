#include "llm/sigv4.h"

#include <catch2/catch.hpp>

using namespace accelopt::llm;

// Requests and signatures of AWS's published test suite for Signature Version 4.

namespace {

const SigV4Scope kSuite{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1",
                        "service", "20150830T123600Z"};

SigV4Request suite(const std::string& method) {
    SigV4Request request;
    request.method = method;
    request.path = "/";
    request.headers = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}};
    return request;
}

}  // namespace

TEST_CASE("plain requests have the published signatures") {
    CHECK(sigv4_signature(suite("GET"), kSuite) ==
          "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
    CHECK(sigv4_signature(suite("POST"), kSuite) ==
          "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
    CHECK(sigv4_authorization(suite("GET"), kSuite) ==
          "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
          "SignedHeaders=host;x-amz-date, "
          "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST_CASE("queries, headers, paths and bodies have the published signatures") {
    auto query = suite("GET");
    query.query = {{"Param2", "value2"}, {"Param1", "value1"}};
    CHECK(sigv4_signature(query, kSuite) ==
          "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
    auto unreserved = suite("GET");
    const std::string all = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unreserved.query = {{all, all}};
    CHECK(sigv4_signature(unreserved, kSuite) ==
          "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197");
    auto utf8 = suite("GET");
    utf8.path = "/\xE1\x88\xB4";
    CHECK(sigv4_signature(utf8, kSuite) ==
          "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
    auto header = suite("POST");
    header.headers["my-header1"] = "value1";
    CHECK(sigv4_signature(header, kSuite) ==
          "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c");
    auto form = suite("POST");
    form.headers["content-type"] = "application/x-www-form-urlencoded";
    form.body = "Param1=value1";
    CHECK(sigv4_signature(form, kSuite) ==
          "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a");
}

TEST_CASE("the documented IAM example has its canonical request and signature") {
    SigV4Request request;
    request.method = "GET";
    request.path = "/";
    request.query = {{"Action", "ListUsers"}, {"Version", "2010-05-08"}};
    request.headers = {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"},
                       {"host", "iam.amazonaws.com"},
                       {"x-amz-date", "20150830T123600Z"}};
    const SigV4Scope scope{kSuite.access_key, kSuite.secret_key, "us-east-1", "iam",
                           "20150830T123600Z"};
    CHECK(string_to_sign(request, scope) ==
          "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n"
          "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59");
    CHECK(sigv4_signature(request, scope) ==
          "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

TEST_CASE("a model id with a colon is encoded once in the address and twice in what is signed") {
    SigV4Request request = suite("POST");
    request.path = "/model/" + percent_encode("anthropic.claude-v2:1", false) + "/converse";
    CHECK(request.path == "/model/anthropic.claude-v2%3A1/converse");
    CHECK(canonical_request(request).find("\n/model/anthropic.claude-v2%253A1/converse\n") !=
          std::string::npos);
}

TEST_CASE("blanks in header values count once") {
    SigV4Request one = suite("GET");
    one.headers["my-header1"] = "  a   b  c ";
    SigV4Request two = suite("GET");
    two.headers["my-header1"] = "a b c";
    CHECK(canonical_request(one) == canonical_request(two));
    CHECK(amz_timestamp(1440938160) == "20150830T123600Z");
}
