#include "store/ledger.h"

namespace accelopt::store {

using protocol::LlmOutcome;

bool turned_away(const protocol::LedgerRow& row) {
    if (row.cost_usd || !row.usage.missing()) return false;
    switch (row.outcome) {
        case LlmOutcome::kRateLimited:
        case LlmOutcome::kQuotaExhausted:
        case LlmOutcome::kOverloaded:
        case LlmOutcome::kContextOverflow:
        case LlmOutcome::kAuth:
        case LlmOutcome::kBudget:
            return true;
        case LlmOutcome::kServerError:
            // A connection that broke, or an error within an answer, may have cost something.
            return row.http_status >= 400;
        case LlmOutcome::kOk:
        case LlmOutcome::kTruncatedStream:
        case LlmOutcome::kLength:
        case LlmOutcome::kReasoningExhausted:
        case LlmOutcome::kRefused:
        case LlmOutcome::kFiltered:
        case LlmOutcome::kMalformed:
        case LlmOutcome::kEmpty:
        case LlmOutcome::kTimeout:
        case LlmOutcome::kCancelled:
            return false;
    }
    return false;
}

}  // namespace accelopt::store
