#include "cluster/call_journal.h"

#include <algorithm>
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

void JournalCallLog::reserve(const llm::Request& request, int attempt) {
    Json json = call_json(request);
    json["attempt"] = attempt;
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

JournalReplies::JournalReplies(const std::string& directory) {
    for (const auto& path : store::journal_files(directory)) {
        store::read_journal(path, [this](const store::Record& record) {
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
            replies_[call_key(json.at("unit").get<std::string>(),
                              json.at("role").get<std::string>(), json.at("sample").get<int>())] = {
                json.at("request_sha256").get<std::string>(), std::move(reply)};
        });
    }
}

std::optional<llm::Reply> JournalReplies::find(const llm::Request& request) {
    const auto it =
        replies_.find(call_key(request.unit_id, protocol::to_string(request.role), request.sample));
    // A changed prompt (another version of the program or of a template) is another question.
    if (it == replies_.end() || it->second.first != request.sha256()) return std::nullopt;
    return it->second.second;
}

WorkerPacer::WorkerPacer(std::optional<double> budget_usd, std::optional<std::int64_t> budget_calls,
                         Clock& clock, Report report, ReportHold report_hold)
    : budget_usd_(budget_usd),
      budget_calls_(budget_calls),
      clock_(clock),
      report_(std::move(report)),
      report_hold_(std::move(report_hold)) {}

std::optional<double> WorkerPacer::delay(const std::string& model) {
    if (budget_usd_ && own_usd_ + other_usd_ >= *budget_usd_) return std::nullopt;
    if (budget_calls_ && own_calls_ + other_calls_ >= *budget_calls_) return std::nullopt;
    const auto it = hold_until_.find(model);
    if (it == hold_until_.end()) return 0.0;
    return std::max(0.0, it->second - clock_.monotonic_s());
}

void WorkerPacer::hold(const std::string& model, double seconds) {
    hold_from_peer(model, seconds);
    report_hold_(model, seconds);
}

void WorkerPacer::hold_from_peer(const std::string& model, double seconds) {
    double& until = hold_until_[model];
    until = std::max(until, clock_.monotonic_s() + seconds);
}

void WorkerPacer::spent(const protocol::LedgerRow& row) {
    if (row.replayed) return;
    own_usd_ += row.cost_usd.value_or(0.0);
    ++own_calls_;
    report_(row);
}

void WorkerPacer::set_others(double usd, std::int64_t calls) {
    other_usd_ = usd;
    other_calls_ = calls;
}

}  // namespace accelopt::cluster
