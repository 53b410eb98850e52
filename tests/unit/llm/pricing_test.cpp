#include "llm/pricing.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "core/error.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;

namespace {

protocol::Usage usage(std::int64_t input, std::int64_t output) {
    protocol::Usage usage;
    usage.input_tokens = input;
    usage.output_tokens = output;
    return usage;
}

/// A file of this test that goes with it.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& text) { std::ofstream(path_) << text; }
    ~TemporaryFile() { std::remove(path_.c_str()); }
    const std::string& path() const { return path_; }

  private:
    std::string path_ = std::string(ACCELOPT_BINARY_DIR) + "/pricing_test.yaml";
};

}  // namespace

TEST_CASE("cached tokens are billed once, at their own price", "[N19]") {
    PriceTable table;
    table.set("m", price(1.25, 0.625, 10));
    protocol::Usage used = usage(262'960 - 257'955, 1'744);
    used.cached_input_tokens = 257'955;
    CHECK(table.cost_usd("m", used).value() == Approx(0.184918).margin(5e-7));
}

TEST_CASE("reasoning is billed as output unless it has a price", "[N20]") {
    PriceTable table;
    table.set("m", price(30, 30, 180));
    protocol::Usage used = usage(14'746, 1'944 - 1'360);
    used.reasoning_tokens = 1'360;
    CHECK(table.cost_usd("m", used).value() == Approx(0.7923).margin(5e-5));
    Price cheaper = price(30, 30, 180);
    cheaper.reasoning_usd = 0;
    table.set("m", cheaper);
    CHECK(table.cost_usd("m", used).value() == Approx(14'746 * 30e-6 + 584 * 180e-6));
}

TEST_CASE("a cost that is not known is not zero", "[N21]") {
    PriceTable table;
    CHECK_FALSE(table.cost_usd("nobody", usage(1, 1)));
    table.set("m", price(1, 1, 1));
    CHECK_FALSE(table.cost_usd("m", {}));
    protocol::Usage half;
    half.output_tokens = 5;
    CHECK_FALSE(table.cost_usd("m", half));
    Price partial;
    partial.input_usd = 1;
    partial.output_usd = 1;
    table.set("p", partial);
    protocol::Usage cached = usage(1, 1);
    cached.cached_input_tokens = 1;
    CHECK_FALSE(table.cost_usd("p", cached));
    cached.cached_input_tokens = 0;
    CHECK(table.cost_usd("p", cached).value() == Approx(2e-6));
}

TEST_CASE("the shipped prices are those of the paper, and the rules are free") {
    const PriceTable table =
        load_prices(std::string(ACCELOPT_SOURCE_DIR) + "/configs/models/prices.yaml");
    struct Row {
        const char* model;
        double input;
        double output;
    };
    const Row rows[] = {{"claude-sonnet-4", 3, 15},
                        {"gpt-oss-20b", 0.07, 0.3},
                        {"openai/gpt-oss-120b", 0.15, 0.6},
                        {"qwen3-coder-30b", 0.15, 0.6},
                        {"qwen3-235b-a22b-thinking", 0.22, 0.88},
                        {"qwen3-coder-480b", 0.45, 1.8}};
    for (const auto& row : rows) {
        CAPTURE(row.model);
        const Price* price = table.find(row.model);
        REQUIRE(price);
        CHECK(price->input_usd.value() == row.input);
        CHECK(price->output_usd.value() == row.output);
        CHECK(price->date == "2025-10-18");
        CHECK(price->source.find("table 6") != std::string::npos);
    }
    REQUIRE(table.find("builtin"));
    CHECK(table.find("builtin")->source == "local rules");
    CHECK(table.cost_usd("builtin", usage(0, 0)).value() == 0.0);
    CHECK_FALSE(table.find("gpt-5"));
}

TEST_CASE("a mistake in a price file is told with its line") {
    const std::string good =
        "prices:\n  - models: [a]\n    input: 1\n    output: 2\n    source: s\n    date: d\n";
    CHECK(load_prices(TemporaryFile(good).path()).find("a"));
    const auto message = [](const std::string& text) -> std::string {
        TemporaryFile file(text);
        try {
            load_prices(file.path());
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    CHECK_THAT(message(good + "    outptu: 3\n"), Catch::Contains(".yaml:7"));
    CHECK_THAT(message("prices:\n  - models: [a, a]\n    input: 1\n    output: 2\n    source: s\n"
                       "    date: d\n"),
               Catch::Contains(".yaml:2") && Catch::Contains("second price"));
    CHECK_THAT(message("prices:\n  - models: [a]\n    input: -1\n    output: 2\n    source: s\n"
                       "    date: d\n"),
               Catch::Contains(".yaml:3"));
}
