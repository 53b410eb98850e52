#pragma once

#include <string>

#include "store/archive.h"

namespace accelopt::store::testing {

/// A verified (or failed) evaluation with a profile.
protocol::EvaluationReply reply_with(const std::string& problem, protocol::Outcome outcome,
                                     const std::string& reason, double latency_ms);

/// One try of one model call.
protocol::LedgerRow ledger_row(const std::string& unit, protocol::Role role, int sample,
                               std::optional<double> cost_usd);

/// A small finished run: silu over two rounds with a win in each, adamw with nothing better than
/// its baseline. Built as a coordinator would journal it.
RunData sample_run();

/// Journals a run as rank 0 of launch 0 would.
void journal_run(const RunData& run, const std::string& directory);

}  // namespace accelopt::store::testing
