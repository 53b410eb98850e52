#pragma once

#include <atomic>
#include <string>

#include "integration/program.h"
#include "support/fault_server.h"

namespace accelopt::testing {

/// What a run of one problem on its test shape needs beside `models` and what differs.
inline std::string run_file(const std::string& models, const std::string& rest = "",
                            const std::string& search = "beam: 1, plans: 2, samples: 1, rounds: 1",
                            const std::string& fixer = "") {
    return "run: {name: r, directory: r}\nproblems: [silu]\nshape: test\nsearch: {" + search +
           "}\nmemory: {positive_threshold: 1}\n"
           "agents: {planner: {model: m}, executor: {model: m}, summarizer: {model: m}" +
           fixer + "}\nmodels:\n" + models + "prices: prices.yaml\n" +
           "verify: {rule: published, seeds: 2}\n" + rest;
}

inline std::string openai_model(const FaultServer& server, const std::string& more = "") {
    return "  m: {provider: openai, url: '" + server.url() +
           "', name: scripted, key_env: ACCELOPT_MODELS_KEY" + more + "}\n";
}

/// Input free, output $15 per million: 20,000 tokens are $0.30.
inline constexpr const char* kPrices =
    "prices:\n  - {models: [scripted], input: 0, output: 15, batch: 0.5, source: test, "
    "date: 2026-01-01}\n";

enum class Asked { kPlan, kKernel, kRepair, kSummary };

inline Asked asked_for(const std::string& body) {
    const std::string user = last_user_message(body);
    if (user.find("What the checker says") != std::string::npos) return Asked::kRepair;
    if (user.find("PLAN ") != std::string::npos) return Asked::kKernel;
    if (system_message(body).find("nl.") == std::string::npos) return Asked::kSummary;
    return Asked::kPlan;
}

/// A model that plays all roles: numbered plans, one kernel, one summary.
class Model {
  public:
    explicit Model(ChatUsage usage = {1000, 100, -1, -1}) : usage_(usage) {}

    ScriptedReply answer(const std::string& body, const std::string& kernel = "") {
        std::string text;
        switch (asked_for(body)) {
            case Asked::kPlan:
                text = "PLAN " + std::to_string(plans_++);
                break;
            case Asked::kKernel:
                text = in_fence(kernel.empty() ? silu_good() : kernel);
                break;
            case Asked::kRepair:
                text = in_fence(silu_good());
                break;
            case Asked::kSummary:
                text = "**One activation**\nUse the fused function.";
                break;
        }
        return chat_reply(text, usage_);
    }

  private:
    ChatUsage usage_;
    std::atomic<int> plans_{0};
};

}  // namespace accelopt::testing
