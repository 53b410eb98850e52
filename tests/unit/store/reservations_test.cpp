#include "store/reservations.h"

#include <catch2/catch.hpp>

#include "protocol/usage.h"

using namespace accelopt;
using namespace accelopt::store;

namespace {

Record reserved(const std::string& unit, int attempt, const std::string& rest = "") {
    return {RecordType::kLlmReserved,
            "{\"unit\":\"" + unit +
                "\",\"problem\":\"silu\",\"role\":\"executor\",\"sample\":"
                "2,\"model\":\"m\",\"max_usd\":0.25,\"attempt\":" +
                std::to_string(attempt) + rest + "}"};
}

Record tried(const std::string& unit, int attempt, const std::string& provider = "openai") {
    protocol::LedgerRow row;
    row.unit_id = unit;
    row.role = protocol::Role::kExecutor;
    row.sample = 2;
    row.attempt = attempt;
    row.provider = provider;
    return {RecordType::kLlmTry, protocol::to_json(row)};
}

}  // namespace

TEST_CASE("a reservation is open until its own launch tells how the try ended", "[N27]") {
    OpenReservations reservations;
    reservations.start_journal();
    reservations.take(reserved("a", 0));
    reservations.take(tried("a", 0));
    reservations.take(reserved("a", 1));  // in flight when the rank died
    reservations.take(reserved("b", 0));
    reservations.start_journal();
    reservations.take(reserved("b", 0));  // asked again
    reservations.take(tried("b", 0));
    const auto open = reservations.open();
    REQUIRE(open.size() == 2);
    CHECK(open[0].unit_id == "a");
    CHECK(open[0].attempt == 1);
    CHECK(open[0].problem == "silu");
    CHECK(open[0].model == "m");
    CHECK(open[0].max_usd == 0.25);
    CHECK(open[1].unit_id == "b");
}

TEST_CASE("what was taken back, or answered in a batch later, is not open") {
    OpenReservations reservations;
    reservations.start_journal();
    reservations.take(reserved("a", 0));
    reservations.take(reserved("a", 0, ",\"unsent\":true"));
    reservations.take(reserved("b", 0));
    reservations.start_journal();
    reservations.take(tried("b", 0, "batch"));
    CHECK(reservations.open().empty());
}

TEST_CASE("a reservation without a price is open at an unknown price") {
    OpenReservations reservations;
    reservations.start_journal();
    reservations.take({RecordType::kLlmReserved,
                       R"({"unit":"a","role":"planner","sample":0,"attempt":0,"model":"m"})"});
    REQUIRE(reservations.open().size() == 1);
    CHECK_FALSE(reservations.open()[0].max_usd);
}
