#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "protocol/usage.h"

namespace accelopt::llm {

/// Dollars per million tokens of one model, with where the price is from. An absent price of a
/// class that was used makes the cost unknown. A served model that is paid for by the hour is
/// priced per token that it produces: dollars per GPU-hour x GPUs / measured tokens per second.
struct Price {
    std::optional<double> input_usd;
    std::optional<double> cached_input_usd;
    std::optional<double> cache_write_usd;
    std::optional<double> output_usd;
    std::optional<double> reasoning_usd;  ///< nullopt: as output
    double batch_factor = 1;              ///< of every price, for calls answered in a batch
    std::string source;
    std::string date;
};

/// Prices by model name (as the endpoint calls it, or the configuration key).
class PriceTable {
  public:
    void set(const std::string& model, Price price) { prices_[model] = std::move(price); }
    const Price* find(const std::string& model) const;
    /// Returns the cost of a try, or nullopt when the price or the usage is unknown, never 0.
    /// `batch`: the call was answered in a batch.
    std::optional<double> cost_usd(const std::string& model, const protocol::Usage& usage,
                                   bool batch = false) const;
    /// Returns what a call may cost at most: every input token at the dearest input price, and
    /// every token that it may produce at the dearest output price. nullopt without a price.
    std::optional<double> max_cost_usd(const std::string& model, std::int64_t input_tokens,
                                       std::int64_t output_tokens, bool batch = false) const;

  private:
    std::map<std::string, Price> prices_;
};

/// Loads a price file (configs/models/prices.yaml explains the format); every mistake is
/// Error(kConfig, ...) with file:line.
PriceTable load_prices(const std::string& path);

}  // namespace accelopt::llm
