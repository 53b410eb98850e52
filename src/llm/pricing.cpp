#include "llm/pricing.h"

#include <algorithm>

#include "config/reader.h"

namespace accelopt::llm {
namespace {

/// Adds the cost of one token class; false when tokens were used and have no price.
bool add_cost(const std::optional<std::int64_t>& tokens,
              const std::optional<double>& usd_per_million, double& sum) {
    if (!tokens || *tokens == 0) return true;
    if (!usd_per_million) return false;
    sum += static_cast<double>(*tokens) * *usd_per_million / 1e6;
    return true;
}

std::optional<double> read_price(const config::Section& entry, const std::string& key) {
    const auto price = entry.optional_double(key);
    if (price && !(*price >= 0)) entry.fail(key, "a price is a number of dollars, zero or more");
    return price;
}

Price read_token_price(const config::Section& entry) {
    Price price;
    price.input_usd = read_price(entry, "input");
    price.cached_input_usd = read_price(entry, "cached_input");
    price.cache_write_usd = read_price(entry, "cache_write");
    price.output_usd = read_price(entry, "output");
    price.reasoning_usd = read_price(entry, "reasoning");
    if (const auto factor = read_price(entry, "batch")) price.batch_factor = *factor;
    return price;
}

/// Reading the prompt is part of the hour: it costs nothing beside the tokens produced.
Price read_gpu_price(const config::Section& entry) {
    const double gpu_hour = read_price(entry, "gpu_hour").value_or(0);
    const double gpus = entry.double_or("gpus", 1);
    const double tokens_per_s = entry.get_double("tokens_per_s");
    if (!(gpus > 0)) entry.fail("gpus", "must be more than 0");
    if (!(tokens_per_s > 0)) entry.fail("tokens_per_s", "must be more than 0");
    Price price;
    price.input_usd = 0;
    price.cached_input_usd = 0;
    price.cache_write_usd = 0;
    price.output_usd = gpu_hour * gpus / 3600 / tokens_per_s * 1e6;
    return price;
}

}  // namespace

const Price* PriceTable::find(const std::string& model) const {
    const auto at = prices_.find(model);
    return at == prices_.end() ? nullptr : &at->second;
}

std::optional<double> PriceTable::cost_usd(const std::string& model, const protocol::Usage& usage,
                                           bool batch) const {
    const Price* price = find(model);
    if (!price) return std::nullopt;
    // Without both of the main classes the server did not say what it used.
    if (!usage.input_tokens || !usage.output_tokens) return std::nullopt;
    const auto& reasoning_usd = price->reasoning_usd ? price->reasoning_usd : price->output_usd;
    double sum = 0;
    const bool known = add_cost(usage.input_tokens, price->input_usd, sum) &&
                       add_cost(usage.cached_input_tokens, price->cached_input_usd, sum) &&
                       add_cost(usage.cache_write_tokens, price->cache_write_usd, sum) &&
                       add_cost(usage.output_tokens, price->output_usd, sum) &&
                       add_cost(usage.reasoning_tokens, reasoning_usd, sum);
    if (!known) return std::nullopt;
    return batch ? sum * price->batch_factor : sum;
}

std::optional<double> PriceTable::max_cost_usd(const std::string& model, std::int64_t input_tokens,
                                               std::int64_t output_tokens, bool batch) const {
    const Price* price = find(model);
    if (!price || !price->input_usd || !price->output_usd) return std::nullopt;
    const double input = std::max({*price->input_usd, price->cached_input_usd.value_or(0),
                                   price->cache_write_usd.value_or(0)});
    const double output = std::max(*price->output_usd, price->reasoning_usd.value_or(0));
    const double usd =
        (static_cast<double>(input_tokens) * input + static_cast<double>(output_tokens) * output) /
        1e6;
    return batch ? usd * price->batch_factor : usd;
}

PriceTable load_prices(const std::string& path) {
    const config::Section file = config::load_file(path);
    PriceTable table;
    for (const auto& entry : file.children("prices")) {
        Price price = entry.has("gpu_hour") ? read_gpu_price(entry) : read_token_price(entry);
        price.source = entry.get_string("source");
        price.date = entry.get_string("date");
        const auto models = entry.string_list("models");
        if (models.empty()) entry.fail("models", "a price names at least one model");
        for (const auto& model : models) {
            if (table.find(model)) entry.fail("models", "a second price for the model " + model);
            table.set(model, price);
        }
    }
    file.finish();
    return table;
}

}  // namespace accelopt::llm
