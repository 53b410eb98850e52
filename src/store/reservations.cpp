#include "store/reservations.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "protocol/usage.h"

namespace accelopt::store {
namespace {

std::string name_of(const std::string& unit, std::string_view role, int sample, int attempt) {
    return fmt::format("{}/{}/{}/{}", unit, role, sample, attempt);
}

}  // namespace

void OpenReservations::take(const Record& record) {
    if (record.type == RecordType::kLlmReserved) reserve(record.payload);
    if (record.type == RecordType::kLlmTry) end(record.payload);
}

void OpenReservations::reserve(const std::string& text) {
    const auto json = nlohmann::json::parse(text);
    OpenReservation r;
    r.unit_id = json.at("unit").get<std::string>();
    r.problem = json.value("problem", "");
    r.role = json.at("role").get<std::string>();
    r.sample = json.at("sample").get<int>();
    r.attempt = json.at("attempt").get<int>();
    r.model = json.at("model").get<std::string>();
    const auto usd = json.find("max_usd");
    if (usd != json.end() && usd->is_number()) r.max_usd = usd->get<double>();
    auto& journals = open_[name_of(r.unit_id, r.role, r.sample, r.attempt)];
    if (json.value("unsent", false)) {
        journals.erase(journal_);
    } else {
        journals[journal_] = std::move(r);
    }
}

void OpenReservations::end(const std::string& text) {
    const auto row = protocol::parse_ledger_row(text);
    const auto at =
        open_.find(name_of(row.unit_id, protocol::to_string(row.role), row.sample, row.attempt));
    if (at == open_.end()) return;
    if (row.provider == "batch") {
        // A question of a batch is answered in whatever launch finds the answer.
        open_.erase(at);
    } else {
        at->second.erase(journal_);
    }
}

std::vector<OpenReservation> OpenReservations::open() const {
    std::vector<OpenReservation> all;
    for (const auto& [name, journals] : open_) {
        for (const auto& [journal, reservation] : journals) all.push_back(reservation);
    }
    return all;
}

}  // namespace accelopt::store
