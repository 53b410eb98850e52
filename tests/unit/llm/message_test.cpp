#include "llm/message.h"

#include <catch2/catch.hpp>

#include "unit/llm/client_fakes.h"

using namespace accelopt::llm;

TEST_CASE("a request's hash covers model and messages and nothing else") {
    const Request base = make_request("u");
    CHECK(base.sha256().size() == 64);

    Request same = base;
    same.unit_id = "other";
    same.sample = 3;
    same.context.seed = 9;
    CHECK(same.sha256() == base.sha256());

    Request model = base;
    model.model = "n";
    CHECK(model.sha256() != base.sha256());
    Request text = base;
    text.messages[1].text += " ";
    CHECK(text.sha256() != base.sha256());
}

TEST_CASE("a request's hash tells where one part ends and the next begins") {
    Request a;
    a.messages = {{"user", "ab"}, {"user", "c"}};
    Request b;
    b.messages = {{"user", "a"}, {"user", "bc"}};
    Request c;
    c.messages = {{"user", "ab/4:user/1:c"}};
    CHECK(a.sha256() != b.sha256());
    CHECK(a.sha256() != c.sha256());
}
