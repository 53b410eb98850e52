#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "report/format.h"
#include "report/run_tables.h"
#include "store/ledger.h"

namespace accelopt::report {
namespace {

using protocol::LedgerRow;
using protocol::Usage;
using TokenClass = std::optional<std::int64_t> Usage::*;

constexpr TokenClass kTokenClasses[] = {&Usage::input_tokens, &Usage::cached_input_tokens,
                                        &Usage::cache_write_tokens, &Usage::output_tokens,
                                        &Usage::reasoning_tokens};

/// The tries of one role and model, or of all.
struct Spend {
    std::set<std::tuple<std::string, protocol::Role, int>> calls;
    std::int64_t tries = 0;
    std::int64_t replayed = 0;
    std::int64_t unpriced = 0;
    std::optional<std::int64_t> tokens[std::size(kTokenClasses)];
    double usd = 0;
    std::int64_t lost = 0;  ///< in flight when a rank died: possibly spent
    double possible_usd = 0;

    void add_lost(const store::OpenReservation& reservation) {
        ++lost;
        possible_usd += reservation.max_usd.value_or(0);
    }

    void add(const LedgerRow& row) {
        calls.emplace(row.unit_id, row.role, row.sample);
        if (row.replayed) {
            ++replayed;  // paid for before: it adds nothing to what was spent
            return;
        }
        ++tries;
        for (std::size_t i = 0; i < std::size(kTokenClasses); ++i) {
            if (const auto count = row.usage.*kTokenClasses[i]) {
                tokens[i] = tokens[i].value_or(0) + *count;
            }
        }
        if (row.cost_usd) {
            usd += *row.cost_usd;
        } else if (!store::turned_away(row)) {
            ++unpriced;
        }
    }

    std::vector<std::string> cells(const std::string& role, const std::string& model) const {
        std::vector<std::string> row = {role, model, fmt::format("{}", calls.size()),
                                        fmt::format("{}", tries), fmt::format("{}", replayed)};
        for (const auto& count : tokens) row.push_back(format_integer(count));
        row.push_back(fmt::format("{}", unpriced));
        const bool nothing_known = unpriced > 0 && usd == 0;
        row.push_back(nothing_known ? kUnknown : (unpriced > 0 ? ">= " : "") + format_usd(usd));
        row.push_back(fmt::format("{}", lost));
        row.push_back(lost > 0 ? "<= " + format_usd(possible_usd) : format_usd(0));
        return row;
    }
};

}  // namespace

std::optional<double> total_usd(const std::vector<LedgerRow>& rows) {
    double usd = 0;
    for (const auto& row : rows) {
        if (row.cost_usd) {
            usd += *row.cost_usd;
        } else if (!store::turned_away(row)) {
            return std::nullopt;
        }
    }
    return usd;
}

Grid cost_grid(const store::RunData& run) {
    std::map<std::pair<protocol::Role, std::string>, Spend> by_model;
    Spend total;
    for (const auto& row : run.ledger) {
        by_model[{row.role, row.model}].add(row);
        total.add(row);
    }
    for (const auto& reservation : run.open_tries) {
        const auto role = protocol::parse_role(reservation.role);
        by_model[{role.value_or(protocol::Role::kPlanner), reservation.model}].add_lost(
            reservation);
        total.add_lost(reservation);
    }
    Grid grid;
    grid.columns = {{"role", false},        {"model", false},         {"calls", true},
                    {"tries", true},        {"replayed", true},       {"input", true},
                    {"cached input", true}, {"cache write", true},    {"output", true},
                    {"reasoning", true},    {"unpriced tries", true}, {"cost $", true},
                    {"lost tries", true},   {"possibly more $", true}};
    for (const auto& [key, spend] : by_model) {
        grid.rows.push_back(spend.cells(std::string(to_string(key.first)), key.second));
    }
    if (!by_model.empty()) grid.rows.push_back(total.cells("total", ""));
    grid.last_row_is_total = true;
    return grid;
}

}  // namespace accelopt::report
