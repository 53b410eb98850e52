#include "store/ledger.h"

#include <catch2/catch.hpp>

using namespace accelopt;
using protocol::LlmOutcome;

TEST_CASE("only what a server turned away cost nothing; what broke off may have", "[N21]") {
    const auto turned_away = [](LlmOutcome outcome, int status) {
        protocol::LedgerRow row;
        row.outcome = outcome;
        row.http_status = status;
        return store::turned_away(row);
    };
    CHECK(turned_away(LlmOutcome::kRateLimited, 429));
    CHECK(turned_away(LlmOutcome::kAuth, 401));
    CHECK(turned_away(LlmOutcome::kServerError, 500));
    CHECK_FALSE(turned_away(LlmOutcome::kServerError, 0));
    CHECK_FALSE(turned_away(LlmOutcome::kServerError, 200));
    CHECK_FALSE(turned_away(LlmOutcome::kTruncatedStream, 200));
    CHECK_FALSE(turned_away(LlmOutcome::kTimeout, 0));
    CHECK_FALSE(turned_away(LlmOutcome::kOk, 200));
    protocol::LedgerRow priced;
    priced.outcome = LlmOutcome::kRateLimited;
    priced.cost_usd = 0.5;
    CHECK_FALSE(store::turned_away(priced));
}
