#include "rewrite/builtin.h"

#include <deque>
#include <utility>

#include "rewrite/executor.h"
#include "rewrite/planner.h"
#include "rewrite/summarizer.h"

namespace accelopt::rewrite {

namespace {

class BuiltinProvider : public llm::Provider {
  public:
    void start(std::uint64_t ticket, const llm::ModelOptions& model,
               const llm::Request& request) override {
        (void)model;
        llm::TryResult result;
        result.ticket = ticket;
        result.text = answer(request);
        // Nothing was paid for: zero tokens, not unknown ones.
        result.usage.input_tokens = 0;
        result.usage.output_tokens = 0;
        finished_.push_back(std::move(result));
    }

    void poll(double wait_s, std::vector<llm::TryResult>& done) override {
        (void)wait_s;
        for (auto& result : finished_) done.push_back(std::move(result));
        finished_.clear();
    }

  private:
    std::string answer(const llm::Request& request) {
        switch (request.role) {
            case protocol::Role::kPlanner:
                return answer_planner(rewriter_, request.context);
            case protocol::Role::kExecutor:
                return answer_executor(rewriter_, request.context);
            case protocol::Role::kSummarizer:
                return answer_summarizer(rewriter_, request.context);
            case protocol::Role::kFixer:
                return "The rewriter applies whole rewrites only; it does not repair kernels.\n";
        }
        return "";
    }

    Rewriter rewriter_;
    std::deque<llm::TryResult> finished_;
};

}  // namespace

std::shared_ptr<llm::Provider> make_builtin_provider() {
    return std::make_shared<BuiltinProvider>();
}

}  // namespace accelopt::rewrite
