#include "eval/expression.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "core/text.h"

namespace accelopt::eval {

namespace {

struct Number {
    bool integer = true;
    std::int64_t whole = 0;
    double real = 0;

    double as_double() const { return integer ? static_cast<double>(whole) : real; }
};

Number whole_number(std::int64_t value) { return {true, value, 0}; }
Number real_number(double value) { return {false, 0, value}; }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

/// A recursive-descent parser that computes as it reads. Throws its own Fault, which never leaves
/// this file.
class Calculator {
  public:
    struct Fault {
        std::string message;
    };

    Calculator(std::string_view text, const Sizes& sizes) : text_(text), sizes_(sizes) {}

    Number run() {
        const Number value = sum();
        skip_space();
        if (at_ < text_.size()) fail("unexpected '" + std::string(1, text_[at_]) + "'");
        if (!value.integer && !std::isfinite(value.real)) fail("the result is not finite");
        return value;
    }

  private:
    static constexpr int kMaxDepth = 64;

    [[noreturn]] void fail(const std::string& what) const {
        throw Fault{what + " at column " + std::to_string(at_ + 1) + " of '" + std::string(text_) +
                    "'"};
    }

    void skip_space() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    }

    /// Takes `symbol` unless it is the start of a longer operator (* of **, / of //).
    bool take(std::string_view symbol) {
        skip_space();
        if (text_.substr(at_, symbol.size()) != symbol) return false;
        const bool doubles = symbol == "*" || symbol == "/";
        if (doubles && text_.substr(at_ + 1, 1) == symbol) return false;
        at_ += symbol.size();
        return true;
    }

    void expect(std::string_view symbol) {
        if (!take(symbol)) fail("expected '" + std::string(symbol) + "'");
    }

    Number sum() {
        if (++depth_ > kMaxDepth) fail("nested too deeply");
        Number value = product();
        for (;;) {
            if (take("+")) {
                value = add(value, product());
            } else if (take("-")) {
                value = add(value, negate(product()));
            } else {
                --depth_;
                return value;
            }
        }
    }

    Number product() {
        Number value = signed_factor();
        for (;;) {
            if (take("*")) {
                value = multiply(value, signed_factor());
            } else if (take("//")) {
                value = floor_divide_numbers(value, signed_factor());
            } else if (take("/")) {
                value = divide(value, signed_factor());
            } else {
                return value;
            }
        }
    }

    Number signed_factor() {
        if (take("-")) {
            if (++depth_ > kMaxDepth) fail("nested too deeply");
            const Number value = negate(signed_factor());
            --depth_;
            return value;
        }
        Number base = atom();
        if (!take("**")) return base;
        if (++depth_ > kMaxDepth) fail("nested too deeply");
        const Number result = power(base, signed_factor());
        --depth_;
        return result;
    }

    Number atom() {
        skip_space();
        if (take("(")) {
            const Number value = sum();
            expect(")");
            return value;
        }
        if (at_ >= text_.size()) fail("expected a number or a size name, found the end");
        const unsigned char first = static_cast<unsigned char>(text_[at_]);
        if (std::isdigit(first) || first == '.') return literal();
        if (std::isalpha(first) || first == '_') return name();
        fail("expected a number or a size name, found '" + std::string(1, text_[at_]) + "'");
    }

    Number literal() {
        const char* begin = text_.data() + at_;
        const char* end = text_.data() + text_.size();
        std::int64_t whole = 0;
        const auto as_int = std::from_chars(begin, end, whole);
        double real = 0;
        const auto as_real = std::from_chars(begin, end, real);
        if (as_real.ec != std::errc{}) fail("not a number");
        const bool integer = as_int.ptr == as_real.ptr;
        if (integer && as_int.ec != std::errc{}) fail("integer out of range");
        at_ += static_cast<std::size_t>(as_real.ptr - begin);
        return integer ? whole_number(whole) : real_number(real);
    }

    Number name() {
        std::size_t end = at_;
        while (end < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) {
            ++end;
        }
        const std::string word(text_.substr(at_, end - at_));
        if (word == "ceil_div") {
            at_ = end;
            return ceil_div_call();
        }
        for (const auto& [size_name, value] : sizes_) {
            if (size_name == word) {
                at_ = end;
                return whole_number(value);
            }
        }
        std::vector<std::string> known = {"ceil_div"};
        for (const auto& [size_name, value] : sizes_) known.push_back(size_name);
        fail("unknown size '" + word + "' (known: " + join(known, ", ") + ")");
    }

    Number ceil_div_call() {
        expect("(");
        const Number a = sum();
        expect(",");
        const Number b = sum();
        expect(")");
        return negate(floor_divide_numbers(negate(a), b));
    }

    Number add(Number a, Number b) const {
        if (!a.integer || !b.integer) return real_number(a.as_double() + b.as_double());
        std::int64_t out = 0;
        if (__builtin_add_overflow(a.whole, b.whole, &out)) fail("integer overflow");
        return whole_number(out);
    }

    Number negate(Number a) const {
        if (!a.integer) return real_number(-a.real);
        std::int64_t out = 0;
        if (__builtin_sub_overflow(std::int64_t{0}, a.whole, &out)) fail("integer overflow");
        return whole_number(out);
    }

    Number multiply(Number a, Number b) const {
        if (!a.integer || !b.integer) return real_number(a.as_double() * b.as_double());
        std::int64_t out = 0;
        if (__builtin_mul_overflow(a.whole, b.whole, &out)) fail("integer overflow");
        return whole_number(out);
    }

    Number divide(Number a, Number b) const {
        if (b.as_double() == 0) fail("division by zero");
        return real_number(a.as_double() / b.as_double());
    }

    Number floor_divide_numbers(Number a, Number b) const {
        if (b.as_double() == 0) fail("division by zero");
        if (!a.integer || !b.integer) {
            return real_number(std::floor(a.as_double() / b.as_double()));
        }
        if (b.whole == -1) return negate(a);  // the one quotient that can overflow
        return whole_number(floor_divide(a.whole, b.whole));
    }

    Number power(Number a, Number b) const {
        if (!a.integer || !b.integer || b.whole < 0) {
            return real_number(std::pow(a.as_double(), b.as_double()));
        }
        // 0, 1 and -1 stay in range for any exponent; everything else overflows within 63 steps.
        const bool unit = a.whole >= -1 && a.whole <= 1;
        const std::int64_t steps = unit ? (b.whole == 0 ? 0 : 2 - b.whole % 2) : b.whole;
        Number out = whole_number(1);
        for (std::int64_t i = 0; i < steps; ++i) out = multiply(out, a);
        return out;
    }

    std::string_view text_;
    const Sizes& sizes_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

Result<double, std::string> evaluate_figure(std::string_view text, const Sizes& sizes) {
    try {
        return Calculator(text, sizes).run().as_double();
    } catch (const Calculator::Fault& fault) {
        return Failure{fault.message};
    }
}

Result<std::int64_t, std::string> evaluate_size(std::string_view text, const Sizes& sizes) {
    try {
        const Number value = Calculator(text, sizes).run();
        if (!value.integer) {
            return Failure{"'" + std::string(text) + "' is not an integer; use // to divide"};
        }
        return value.whole;
    } catch (const Calculator::Fault& fault) {
        return Failure{fault.message};
    }
}

}  // namespace accelopt::eval
