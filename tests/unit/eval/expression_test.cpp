#include "eval/expression.h"

#include <catch2/catch.hpp>

using accelopt::eval::evaluate_figure;
using accelopt::eval::evaluate_size;
using accelopt::eval::Sizes;

namespace {

const Sizes kSizes = {{"M", 4096}, {"N", 7168}, {"K", 10}};

std::int64_t size(const std::string& text) { return evaluate_size(text, kSizes).value(); }
double figure(const std::string& text) { return evaluate_figure(text, kSizes).value(); }
std::string fault(const std::string& text) {
    const auto result = evaluate_size(text, kSizes);
    REQUIRE_FALSE(result.ok());
    return result.error();
}

}  // namespace

TEST_CASE("formulas follow Python's precedence and integer arithmetic") {
    CHECK(size("3 * M * N") == 3LL * 4096 * 7168);
    CHECK(size("4*(M*N + K*N + M*N)") == 4LL * (4096LL * 7168 * 2 + 10LL * 7168));
    CHECK(size("2 + 3 * 4 - 5") == 9);
    CHECK(size("10 - 3 - 2") == 5);
    CHECK(size("M // 128") == 32);
    CHECK(size("100 // 7 * 7") == 98);
    CHECK(size("2 ** 3 ** 2") == 512);
    CHECK(size("-2 ** 2") == -4);
    CHECK(size("(-2) ** 2") == 4);
    CHECK(size("-7 // 2") == -4);
    CHECK(size("7 // -2") == -4);
    CHECK(size("2*K**2") == 200);
    CHECK(size("- - 3") == 3);
    CHECK(size("(-1) ** 1000000000001") == -1);
}

TEST_CASE("ceil_div rounds up and nests") {
    CHECK(size("ceil_div(10944, 128)") == 86);
    CHECK(size("ceil_div(128, 128)") == 1);
    CHECK(size("ceil_div(129, 128)") == 2);
    CHECK(size("ceil_div(ceil_div(M, 3), 2)") == 683);
}

TEST_CASE("figures may be fractions, sizes may not") {
    CHECK(figure("M / 3") == Approx(4096.0 / 3));
    CHECK(figure("1.5e3 * K") == Approx(15000));
    CHECK(figure("2 ** 0.5") == Approx(1.41421356));
    CHECK(fault("M / 2").find("use //") != std::string::npos);
    CHECK(fault("2.0") == "'2.0' is not an integer; use // to divide");
}

TEST_CASE("a faulty formula names what is wrong and where") {
    CHECK(fault("M * Q").find("unknown size 'Q' (known: ceil_div, M, N, K) at column 5") == 0);
    CHECK(fault("").find("found the end") != std::string::npos);
    CHECK(fault("M +").find("found the end") != std::string::npos);
    CHECK(fault("(M").find("expected ')'") != std::string::npos);
    CHECK(fault("M N").find("unexpected 'N' at column 3") == 0);
    CHECK(fault("ceil_div(M)").find("expected ','") != std::string::npos);
    CHECK(fault("M // 0").find("division by zero") == 0);
    CHECK(fault("M / 0").find("division by zero") == 0);
    CHECK(fault("__import__('os')").find("unknown size '__import__'") == 0);
    CHECK(fault("M % 2").find("unexpected '%'") == 0);
    CHECK(fault("M *** 2").find("expected a number") == 0);
}

TEST_CASE("a formula can neither overflow nor exhaust the stack") {
    CHECK(fault("M ** 6").find("integer overflow") == 0);
    CHECK(size("2 ** 62") == (std::int64_t{1} << 62));
    CHECK(fault("2 ** 63").find("integer overflow") == 0);
    CHECK(fault("99999999999999999999").find("integer out of range") == 0);
    CHECK(fault("9223372036854775807 + 1").find("integer overflow") == 0);
    CHECK(fault(std::string(100000, '(')).find("nested too deeply") == 0);
    CHECK(fault(std::string(100000, '-')).find("nested too deeply") == 0);
    std::string towers = "2";
    for (int i = 0; i < 1000; ++i) towers += "**1";
    CHECK(fault(towers).find("nested too deeply") == 0);
    CHECK_FALSE(evaluate_figure("1e308 * 10", kSizes).ok());
}
