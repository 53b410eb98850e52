#include "report/peak_mean.h"

#include <catch2/catch.hpp>

using namespace accelopt;

namespace {

protocol::EvaluationReply with_peak(std::optional<double> fraction) {
    protocol::EvaluationReply reply;
    reply.profile.emplace().percent_of_peak = fraction;
    return reply;
}

}  // namespace

TEST_CASE("percent of peak is averaged geometrically, over the replies that have it") {
    CHECK_FALSE(report::mean_percent_of_peak({}).has_value());
    CHECK_FALSE(report::mean_percent_of_peak({with_peak(std::nullopt), {}}).has_value());
    CHECK(report::peak_mean_line({with_peak(std::nullopt)}).empty());
    const std::vector<protocol::EvaluationReply> replies = {with_peak(0.2), with_peak(0.8),
                                                            with_peak(std::nullopt)};
    CHECK(report::mean_percent_of_peak(replies).value() == Approx(0.4));
    CHECK(report::peak_mean_line(replies) == "geometric mean of % of peak: 40.0 (2 problems)\n");
}
