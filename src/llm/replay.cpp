#include "llm/replay.h"

#include <map>
#include <utility>

#include "core/error.h"

namespace accelopt::llm {
namespace {

class ReplayProvider : public Provider {
  public:
    explicit ReplayProvider(RecordingLoader loader) : loader_(std::move(loader)) {}

    std::optional<Reply> recorded(const ModelOptions& model, const Request& request) override {
        auto& recording = recordings_[model.recording];
        if (!recording) recording = loader_(model.recording);
        auto reply = recording->find(request);
        if (reply || !model.fallback.empty()) return reply;
        throw Error(ErrorSource::kUser, "replay",
                    "the recorded run " + model.recording + " holds no answer for unit " +
                        request.unit_id + " (" + std::string(protocol::to_string(request.role)) +
                        ", sample " + std::to_string(request.sample) + ", request " +
                        request.sha256().substr(0, 12) +
                        "): another configuration, prompt or model key made that run");
    }

    void start(std::uint64_t, const ModelOptions&, const Request&) override {
        require(false, "a replayed model was asked");
    }
    void poll(double, std::vector<TryResult>&) override {}

  private:
    RecordingLoader loader_;
    std::map<std::string, std::shared_ptr<ReplySource>> recordings_;  ///< by directory
};

}  // namespace

std::shared_ptr<Provider> make_replay_provider(RecordingLoader loader) {
    return std::make_shared<ReplayProvider>(std::move(loader));
}

}  // namespace accelopt::llm
