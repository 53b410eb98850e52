#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "llm/pricing.h"

namespace accelopt::llm {

/// One thing that was looked at before a run.
struct Finding {
    std::string what;  ///< "model gpt: endpoint"
    bool good = false;
    std::string value;  ///< what was found; never a key
    std::string remedy;
};

/// Checks the models of a configuration: entry, keys (present; never shown), prices, and for
/// endpoints with a list of models whether it can be reached and names the model. Waits at most
/// `timeout_s` per endpoint, asks no model and spends nothing.
std::vector<Finding> examine_models(const std::map<std::string, config::ModelConfig>& models,
                                    const PriceTable& prices, bool dollar_budget,
                                    double timeout_s = 10);

}  // namespace accelopt::llm
