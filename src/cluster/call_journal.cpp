#include "cluster/call_journal.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace accelopt::cluster {
namespace {

using Json = nlohmann::ordered_json;
using protocol::LlmOutcome;

std::string call_key(const std::string& unit, std::string_view role, int sample) {
    return unit + "/" + std::string(role) + "/" + std::to_string(sample);
}

Json call_json(const llm::Request& request) {
    return Json{{"unit", request.unit_id},
                {"role", protocol::to_string(request.role)},
                {"sample", request.sample},
                {"model", request.model},
                {"request_sha256", request.sha256()}};
}

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// True when asking again is the right thing after a restart.
bool worth_asking_again(LlmOutcome outcome) {
    switch (outcome) {
        case LlmOutcome::kRateLimited:
        case LlmOutcome::kQuotaExhausted:
        case LlmOutcome::kOverloaded:
        case LlmOutcome::kServerError:
        case LlmOutcome::kAuth:
        case LlmOutcome::kTimeout:
        case LlmOutcome::kCancelled:
        case LlmOutcome::kBudget:
            return true;
        case LlmOutcome::kOk:
        case LlmOutcome::kTruncatedStream:
        case LlmOutcome::kLength:
        case LlmOutcome::kReasoningExhausted:
        case LlmOutcome::kRefused:
        case LlmOutcome::kFiltered:
        case LlmOutcome::kMalformed:
        case LlmOutcome::kEmpty:
        case LlmOutcome::kContextOverflow:
            return false;
    }
    return false;
}

}  // namespace

void JournalCallLog::withdraw(const llm::Request& request, int attempt) {
    Json json = call_json(request);
    json["attempt"] = attempt;
    json["unsent"] = true;
    journal_.append(store::RecordType::kLlmReserved, dump(json));
}

void JournalCallLog::reserve(const llm::Request& request, int attempt,
                             std::optional<double> max_usd) {
    Json json = call_json(request);
    json["attempt"] = attempt;
    json["problem"] = request.problem;
    json["max_usd"] = max_usd ? Json(*max_usd) : Json(nullptr);
    if (!request.trimmed.empty()) json["trimmed"] = request.trimmed;
    journal_.append(store::RecordType::kLlmReserved, dump(json));
}

void JournalCallLog::record_try(const llm::Request&, const protocol::LedgerRow& row) {
    journal_.append(store::RecordType::kLlmTry, protocol::to_json(row));
}

void JournalCallLog::record_reply(const llm::Request& request, const llm::Reply& reply) {
    if (worth_asking_again(reply.outcome)) return;
    Json json = call_json(request);
    json["outcome"] = protocol::to_string(reply.outcome);
    json["text"] = reply.text;
    json["reasoning"] = reply.reasoning;
    json["error"] = reply.error;
    Json tries = Json::array();
    for (const auto& row : reply.tries) tries.push_back(protocol::to_json(row));
    json["tries"] = std::move(tries);
    journal_.append(store::RecordType::kLlmReply, dump(json));
}

JournalReplies::JournalReplies(const std::string& directory, Scope scope) {
    std::map<std::string, std::pair<std::string, llm::Reply>> failed;
    for (const auto& path : store::journal_files(directory)) {
        store::read_journal(path, [&](const store::Record& record) { read(record, failed); });
    }
    // `merge` leaves what is there: an answer counts more than the failures before it.
    if (scope == Scope::kAllCalls) replies_.merge(failed);
}

void JournalReplies::read(const store::Record& record,
                          std::map<std::string, std::pair<std::string, llm::Reply>>& failed) {
    if (record.type == store::RecordType::kLlmTry) {
        const auto row = protocol::parse_ledger_row(record.payload);
        auto& [hash, reply] =
            failed[call_key(row.unit_id, protocol::to_string(row.role), row.sample)];
        if (row.attempt == 0) reply.tries.clear();  // a later launch began again
        hash = row.request_sha256;
        reply.outcome = row.outcome;
        reply.error = row.error;
        reply.tries.push_back(row);
        return;
    }
    if (record.type != store::RecordType::kLlmReply) return;
    const Json json = Json::parse(record.payload);
    llm::Reply reply;
    const auto outcome = protocol::parse_llm_outcome(json.at("outcome").get<std::string>());
    if (!outcome) return;
    reply.outcome = *outcome;
    reply.text = json.at("text").get<std::string>();
    reply.reasoning = json.at("reasoning").get<std::string>();
    reply.error = json.at("error").get<std::string>();
    for (const auto& row : json.at("tries")) {
        reply.tries.push_back(protocol::parse_ledger_row(row.get<std::string>()));
    }
    replies_[call_key(json.at("unit").get<std::string>(), json.at("role").get<std::string>(),
                      json.at("sample").get<int>())] = {
        json.at("request_sha256").get<std::string>(), std::move(reply)};
}

std::string recording_folder(const std::string& directory) {
    const bool has_journal = std::filesystem::is_directory(directory + "/journal");
    const std::string folder = has_journal ? directory + "/journal" : directory;
    if (!std::filesystem::is_directory(folder) || store::journal_files(folder).empty()) {
        throw Error(ErrorSource::kUser, "replay",
                    directory + " holds no recorded run (no journal)");
    }
    return folder;
}

std::shared_ptr<llm::ReplySource> open_recording(const std::string& directory) {
    return std::make_shared<JournalReplies>(recording_folder(directory),
                                            JournalReplies::Scope::kAllCalls);
}

std::optional<llm::Reply> JournalReplies::find(const llm::Request& request) {
    const auto it =
        replies_.find(call_key(request.unit_id, protocol::to_string(request.role), request.sample));
    // A changed prompt (another version of the program or of a template) is another question.
    if (it == replies_.end() || it->second.first != request.sha256()) return std::nullopt;
    return it->second.second;
}

WorkerPacer::WorkerPacer(bool limited, Clock& clock, Coordinator coordinator)
    : limited_(limited), clock_(clock), coordinator_(std::move(coordinator)) {}

llm::Admission WorkerPacer::admit(const llm::Reservation& reservation) {
    using Verdict = llm::Admission::Verdict;
    // The coordinator's answer comes within a turn of its loop.
    static constexpr double kTurn_s = 0.002;
    static constexpr double kAskAgain_s = 0.1;
    const double now = clock_.monotonic_s();
    const auto held = hold_until_.find(reservation.model);
    if (held != hold_until_.end() && held->second > now) {
        return {Verdict::kWait, held->second - now, true, ""};
    }
    if (!limited_) return {};
    const auto at = asked_.find(reservation.ticket);
    if (at == asked_.end()) {
        asked_[reservation.ticket] = {};
        coordinator_.reserve(reservation);
        return {Verdict::kWait, kTurn_s, false, ""};
    }
    Asked& asked = at->second;
    if (!asked.answer) return {Verdict::kWait, kTurn_s, false, ""};
    switch (asked.answer->verdict) {
        case Budget::Verdict::kGranted:
            return {};
        case Budget::Verdict::kSpent:
            return {Verdict::kSpent, 0, false, asked.answer->why};
        case Budget::Verdict::kWait:
            break;
    }
    if (asked.again_s == 0) asked.again_s = now + kAskAgain_s;
    if (now < asked.again_s) return {Verdict::kWait, asked.again_s - now, false, ""};
    asked = {};
    coordinator_.reserve(reservation);
    return {Verdict::kWait, kTurn_s, false, ""};
}

void WorkerPacer::settle(const llm::Reservation& reservation, const protocol::LedgerRow* row) {
    // What was spent first: for a moment it counts twice, never not at all.
    if (row && !row->replayed) coordinator_.spent(*row);
    if (asked_.erase(reservation.ticket) > 0) coordinator_.release(reservation.ticket);
}

void WorkerPacer::answered(std::uint64_t ticket, Budget::Answer answer) {
    const auto at = asked_.find(ticket);
    if (at != asked_.end()) at->second.answer = std::move(answer);
}

void WorkerPacer::hold(const std::string& model, double seconds) {
    hold_from_peer(model, seconds);
    coordinator_.hold(model, seconds);
}

void WorkerPacer::hold_from_peer(const std::string& model, double seconds) {
    double& until = hold_until_[model];
    until = std::max(until, clock_.monotonic_s() + seconds);
}

}  // namespace accelopt::cluster
