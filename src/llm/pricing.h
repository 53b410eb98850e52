#pragma once

#include <map>
#include <optional>
#include <string>

#include "protocol/usage.h"

namespace accelopt::llm {

/// Dollars per million tokens of one model, with where the price is from. An absent price of a
/// class that was used makes the cost unknown.
struct Price {
    std::optional<double> input_usd;
    std::optional<double> cached_input_usd;
    std::optional<double> cache_write_usd;
    std::optional<double> output_usd;
    std::optional<double> reasoning_usd;  ///< nullopt: as output
    std::string source;
    std::string date;
};

/// Prices by model name (as the endpoint calls it, or the configuration key).
class PriceTable {
  public:
    void set(const std::string& model, Price price) { prices_[model] = std::move(price); }
    const Price* find(const std::string& model) const;
    /// Returns the cost of a try, or nullopt when the price or the usage is unknown, never 0.
    std::optional<double> cost_usd(const std::string& model, const protocol::Usage& usage) const;

  private:
    std::map<std::string, Price> prices_;
};

/// Loads a price file (configs/models/prices.yaml explains the format); every mistake is
/// Error(kConfig, ...) with file:line.
PriceTable load_prices(const std::string& path);

}  // namespace accelopt::llm
