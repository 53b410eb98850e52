#pragma once

#include <map>
#include <string>

#include "config/run_config.h"
#include "llm/pricing.h"
#include "llm/provider.h"

namespace accelopt::llm {

/// Makes the options of a model from its configuration, reading the API key from the environment
/// variable that `key_env` names. Error(kConfig, ...) with the entry's file:line when the variable
/// is unset or cannot be sent in a header, or when a field that the provider needs is missing.
ModelOptions make_model_options(const config::ModelConfig& model);

/// The name under which the table prices this model: the endpoint's name for it, else the
/// configuration key; a `builtin` model without an entry of its own is priced as "builtin".
std::string price_name(const ModelOptions& model, const PriceTable& prices);

/// Checks a model's configuration without reading its key: provider, keys of the entry, address,
/// limits. Error(kConfig, "model") with file:line.
void check_model(const config::ModelConfig& model);

/// Checks everything about the models of a configuration that can be known before a call is made.
void check_models(const std::map<std::string, config::ModelConfig>& models,
                  const PriceTable& prices, bool dollar_budget);

/// Throws Error(kConfig, "model") when a dollar budget is set (for all, or for the model) and a
/// model has no price, since such a budget could never be spent.
void require_prices(const std::map<std::string, config::ModelConfig>& models,
                    const PriceTable& prices, bool dollar_budget);

}  // namespace accelopt::llm
