#include "llm/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "llm/http_provider.h"
#include "llm/json_reading.h"
#include "llm/openai_reply.h"
#include "llm/server_error.h"

namespace accelopt::llm {

namespace fs = std::filesystem;

namespace {

using protocol::LlmOutcome;

constexpr const char* kMark = "accelopt";
/// How often the answers are looked at while waiting for them.
constexpr double kLook_s = 5;

std::vector<fs::path> jsonl_files(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

/// True when an answer line is an answer of a model, not a failure.
bool is_good(const Json& line) {
    const Json* response = member(line, "response");
    if (!response || member(line, "error")) return false;
    const auto status = count_member(*response, "status_code");
    return status && *status >= 200 && *status <= 299;
}

class BatchProvider : public Provider {
  public:
    BatchProvider(Clock& clock, double quiet_s) : clock_(clock), quiet_s_(quiet_s) {}

    void start(std::uint64_t ticket, const ModelOptions& model, const Request& request) override {
        Pending pending{ticket, "", model, openai_request_body(unstreamed(model), request), false};
        // The same call again asks under the next number: its earlier answer was a failure.
        const std::string call = batch_id(model, request, 0);
        pending.id = batch_id(model, request, attempts_[call]++);
        if (!answers_.contains(model.folder)) look(model);
        last_start_s_ = clock_.monotonic_s();
        pending_.push_back(std::move(pending));
    }

    void poll(double wait_s, std::vector<TryResult>& done) override {
        const auto before = done.size();
        answer_pending(done);
        if (pending_.empty() || done.size() > before) return;
        const double quiet_at = last_start_s_ + quiet_s_;
        const double now = clock_.monotonic_s();
        if (now < quiet_at) {
            clock_.sleep(std::min(wait_s, quiet_at - now));
            return;
        }
        write_requests();
        give_up_or_wait(wait_s, done);
    }

    void cancel(std::uint64_t ticket) override {
        std::erase_if(pending_, [ticket](const Pending& p) { return p.ticket == ticket; });
    }

  private:
    struct Pending {
        std::uint64_t ticket;
        std::string id;
        ModelOptions model;
        std::string body;
        bool written;
    };

    static ModelOptions unstreamed(ModelOptions model) {
        model.stream = false;
        return model;
    }

    void look(const ModelOptions& model) {
        answers_[model.folder] = read_batch_answers(model.folder + "/answers", model.run_id).lines;
        last_look_s_ = clock_.monotonic_s();
    }

    void answer_pending(std::vector<TryResult>& done) {
        std::erase_if(pending_, [&](const Pending& pending) {
            const auto& lines = answers_.at(pending.model.folder);
            const auto at = lines.find(pending.id);
            if (at == lines.end()) return false;
            TryResult result;
            result.ticket = pending.ticket;
            read_batch_answer(at->second, result);
            scrub(pending.model, result);
            done.push_back(std::move(result));
            return true;
        });
    }

    /// One file per folder and set of questions: the same set gives the same file again.
    void write_requests() {
        std::map<std::string, std::string> bodies;  // by folder
        for (auto& pending : pending_) {
            if (pending.written) continue;
            pending.written = true;
            const Json line = {{"custom_id", pending.id},
                               {"method", "POST"},
                               {"url", "/v1/chat/completions"},
                               {"body", Json::parse(pending.body)}};
            bodies[pending.model.folder] += dump(line) + "\n";
        }
        for (const auto& [folder, body] : bodies) {
            fs::create_directories(folder + "/requests");
            fs::create_directories(folder + "/answers");
            files_[folder] = folder + "/requests/" + sha256_hex(body).substr(0, 12) + ".jsonl";
            write_file_atomically(files_[folder], body);
        }
    }

    void give_up_or_wait(double wait_s, std::vector<TryResult>& done) {
        std::erase_if(pending_, [&](const Pending& pending) {
            if (pending.model.wait) return false;
            TryResult result;
            result.ticket = pending.ticket;
            result.outcome = LlmOutcome::kCancelled;
            result.sent = false;
            result.error = fmt::format(
                "waiting for the batch answers to {}: put the output file into {}/answers and "
                "continue with --resume",
                files_[pending.model.folder], pending.model.folder);
            // Asked again under the same number after a resume.
            done.push_back(std::move(result));
            return true;
        });
        if (pending_.empty() || !done.empty()) return;
        const double now = clock_.monotonic_s();
        if (now < last_look_s_ + kLook_s) {
            clock_.sleep(std::min(wait_s, last_look_s_ + kLook_s - now));
            return;
        }
        std::map<std::string, ModelOptions> folders;
        for (const auto& pending : pending_) folders[pending.model.folder] = pending.model;
        for (const auto& [folder, model] : folders) look(model);
    }

    Clock& clock_;
    double quiet_s_;
    double last_start_s_ = 0;
    double last_look_s_ = 0;
    std::vector<Pending> pending_;
    std::map<std::string, int> attempts_;                                ///< by first custom_id
    std::map<std::string, std::map<std::string, std::string>> answers_;  ///< by folder
    std::map<std::string, std::string> files_;  ///< last written, by folder
};

}  // namespace

std::string batch_id(const ModelOptions& model, const Request& request, int attempt) {
    // At most 64 characters of letters, digits, '-' and '_': what hosted services accept.
    return fmt::format("{}-{}-{}-{}-{}-{}", kMark, model.run_id, request.unit_id.substr(0, 24),
                       protocol::to_string(request.role), request.sample, attempt);
}

BatchAnswers read_batch_answers(const std::string& folder, const std::string& run_id) {
    BatchAnswers answers;
    const std::string own = std::string(kMark) + "-" + run_id + "-";
    for (const auto& path : jsonl_files(folder)) {
        int number = 0;
        for (const auto& text : split(read_file(path.string()), '\n')) {
            ++number;
            if (blank(text)) continue;
            const auto line = parse_object(text);
            const std::string id = line ? text_member(*line, "custom_id") : "";
            if (id.empty()) {
                ++answers.unreadable;
                continue;
            }
            if (id.rfind(own, 0) != 0) {
                throw Error(ErrorSource::kUser, "batch",
                            fmt::format("{}:{}: custom_id \"{}\" is not of this run ({}...): a "
                                        "file of another run lies in this folder",
                                        path.string(), number, one_line(id.substr(0, 80)), own));
            }
            const auto [at, fresh] = answers.lines.try_emplace(id, text);
            if (fresh) continue;
            ++answers.duplicates;
            const auto known = parse_object(at->second);
            if (!is_good(*known) && is_good(*line)) at->second = text;
        }
    }
    return answers;
}

void read_batch_answer(const std::string& text, TryResult& result) {
    const auto line = parse_object(text);
    const Json* response = line ? member(*line, "response") : nullptr;
    if (response) {
        const auto status = count_member(*response, "status_code").value_or(200);
        const Json* body = member(*response, "body");
        read_openai_reply(static_cast<int>(std::min<std::int64_t>(status, 999)),
                          body ? dump(*body) : "", result);
        return;
    }
    const Json* error = line ? member(*line, "error") : nullptr;
    if (!error) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "the answer line has neither response nor error: " + one_line(text);
        return;
    }
    ServerError server_error;
    server_error.code = text_member(*error, "code");
    server_error.message = text_member(*error, "message");
    if (server_error.message.empty()) server_error.message = dump(*error);
    classify_error(200, server_error, result);
}

std::shared_ptr<Provider> make_batch_provider(Clock& clock, double quiet_s) {
    return std::make_shared<BatchProvider>(clock, quiet_s);
}

}  // namespace accelopt::llm
