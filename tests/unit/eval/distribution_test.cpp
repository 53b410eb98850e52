#include "eval/distribution.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "config/reader.h"
#include "eval/reference/python_reference.h"

using namespace accelopt;

namespace {

constexpr std::int64_t kRows = 300;
constexpr std::int64_t kColumns = 40;

/// A [300, 40] tensor drawn from one mapping of problem.yaml.
std::vector<float> draw(const std::string& mapping) {
    eval::Problem problem;
    problem.id = "drawn";
    eval::InputSpec input;
    input.name = "x";
    input.shape = {kRows, kColumns};
    const config::Section section = config::load_text(mapping, "test");
    input.distribution = eval::read_distribution(section, input.shape);
    section.finish();
    problem.inputs = {input};
    std::vector<float> values(static_cast<std::size_t>(kRows * kColumns));
    eval::draw_input(eval::nominal_set(problem, "s", 0), 0, values);
    return values;
}

double mean(const std::vector<float>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double deviation(const std::vector<float>& x) {
    const double centre = mean(x);
    double sum = 0;
    for (const float value : x) sum += (value - centre) * (value - centre);
    return std::sqrt(sum / static_cast<double>(x.size()));
}

float smallest(const std::vector<float>& x) { return *std::min_element(x.begin(), x.end()); }
float largest(const std::vector<float>& x) { return *std::max_element(x.begin(), x.end()); }

float at(const std::vector<float>& x, std::int64_t row, std::int64_t column) {
    return x.at(static_cast<std::size_t>(row * kColumns + column));
}

}  // namespace

TEST_CASE("random distributions have the moments and bounds that they promise") {
    const auto normal = draw("distribution: normal\nscale: 2\n");
    CHECK(mean(normal) == Approx(0).margin(0.1));
    CHECK(deviation(normal) == Approx(2).epsilon(0.05));
    CHECK(smallest(draw("distribution: abs_normal\n")) >= 0);

    const auto uniform = draw("{distribution: uniform, low: -1, high: 3}");
    CHECK(mean(uniform) == Approx(1).margin(0.1));
    CHECK(smallest(uniform) >= -1);
    CHECK(largest(uniform) <= 3);
    CHECK(deviation(uniform) == Approx(4 / std::sqrt(12.0)).epsilon(0.05));

    const auto wide = draw("{distribution: wide_range, low: -20, high: 20}");
    std::vector<float> exponents;
    for (const float value : wide) exponents.push_back(std::log2(std::abs(value)));
    CHECK(smallest(exponents) >= -20);
    CHECK(largest(exponents) <= 20);
    CHECK(deviation(exponents) == Approx(40 / std::sqrt(12.0)).epsilon(0.05));
    const auto negative = std::count_if(wide.begin(), wide.end(), [](float v) { return v < 0; });
    CHECK(negative > kRows * kColumns * 4 / 10);
    CHECK(negative < kRows * kColumns * 6 / 10);
    CHECK(smallest(draw("{distribution: positive_wide_range, low: -2, high: 2}")) >= 0.25);

    const auto offset = draw("{distribution: offset, value: 200, deviation: 0.5}");
    CHECK(mean(offset) == Approx(200).margin(0.1));
    CHECK(deviation(offset) == Approx(0.5).epsilon(0.05));
    CHECK(draw("{distribution: constant, value: 7}") ==
          std::vector<float>(static_cast<std::size_t>(kRows * kColumns), 7.0f));

    const auto whole = draw("{distribution: integers, low: -2, high: 2}");
    CHECK(smallest(whole) == -2);
    CHECK(largest(whole) == 2);
    CHECK(std::all_of(whole.begin(), whole.end(), [](float v) { return v == std::floor(v); }));
}

TEST_CASE("structured distributions put their features where they say") {
    const auto spikes = draw("{distribution: spikes, axis: 1, at: -3, value: 100}");
    const auto growing = draw("{distribution: growing, axis: 1, from: 0, to: 390}");
    const auto early = draw("{distribution: impulse, axis: 0, at: 2, value: 9, background: 0}");
    for (std::int64_t row = 0; row < kRows; ++row) {
        CHECK(at(spikes, row, kColumns - 3) > 90);
        CHECK(at(spikes, row, kColumns - 2) < 10);
        CHECK(at(growing, row, kColumns - 1) == Approx(390).margin(6));
        CHECK(at(growing, row, 20) == Approx(200).margin(6));
        CHECK(at(early, row, 5) == (row == 2 ? 9.0f : 0.0f));
    }
}

TEST_CASE("needles stand once in every line, at every index of long enough tensors") {
    const auto wide = draw("{distribution: needle, axis: 1, value: 50, background: 0}");
    std::vector<int> hits(kColumns);
    for (std::int64_t row = 0; row < kRows; ++row) {
        int in_row = 0;
        for (std::int64_t column = 0; column < kColumns; ++column) {
            if (at(wide, row, column) == 50) {
                ++in_row;
                ++hits[static_cast<std::size_t>(column)];
            }
        }
        CHECK(in_row == 1);
    }
    CHECK(*std::min_element(hits.begin(), hits.end()) >= 1);

    // Fewer lines than indices: the last index is used all the same.
    const auto tall = draw("{distribution: needle, axis: 0, value: 50, background: 0}");
    int last = 0;
    for (std::int64_t column = 0; column < kColumns; ++column) {
        int in_column = 0;
        for (std::int64_t row = 0; row < kRows; ++row) in_column += at(tall, row, column) == 50;
        CHECK(in_column == 1);
        last += at(tall, kRows - 1, column) == 50;
    }
    CHECK(last == 1);
}
