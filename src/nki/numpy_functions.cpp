#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

using A = ActFunction;

constexpr std::int64_t kMaxArrayElements = 4'000'000;

double square(double x) { return x * x; }
double reciprocal(double x) { return 1.0 / x; }
double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }
double same(double x) { return x; }
double negate(double x) { return -x; }

double binary_value(AluOp op, double x, double y) {
    switch (op) {
        case AluOp::kAdd:
            return x + y;
        case AluOp::kSubtract:
            return x - y;
        case AluOp::kMultiply:
            return x * y;
        case AluOp::kDivide:
            return x / y;
        case AluOp::kMax:
            return std::max(x, y);
        case AluOp::kMin:
            return std::min(x, y);
        case AluOp::kPower:
            return std::pow(x, y);
        default:
            unsupported("unknown_api", "this numpy function on numbers is not supported").raise();
    }
}

std::vector<std::int64_t> shape_of(const Evaluator& host, const Value& value) {
    std::vector<std::int64_t> shape;
    if (value.is_integer()) {
        shape.push_back(value.integer());
    } else if (value.is(Kind::kTuple) || value.is(Kind::kList)) {
        for (const Value& n : value.as<Sequence>().items)
            shape.push_back(host.to_integer(n, "a shape"));
    } else {
        rejected("type_error", "a numpy shape must be ints").raise();
    }
    std::int64_t total = 1;
    for (const std::int64_t n : shape) {
        if (n <= 0) rejected("value_error", "a numpy shape must be above 0").raise();
        total = checked_multiply(total, n);
    }
    if (total > kMaxArrayElements)
        exhausted("memory", "a host array is too large").limit(kMaxArrayElements).raise();
    return shape;
}

/// Flattens nested lists of numbers; finds their shape. One number that is no integer makes the
/// array float32, as numpy does.
void flatten(Evaluator& host, const Value& value, std::size_t depth, HostArray& out) {
    host.tick();
    if (value.is_number()) {
        if (depth != out.shape.size()) rejected("value_error", "a ragged numpy array").raise();
        if (out.values.empty()) out.dtype = DType::kInt32;
        if (!value.is_integer()) out.dtype = DType::kFloat32;
        out.values.push_back(value.number());
        return;
    }
    if (depth > 4 || (!value.is(Kind::kList) && !value.is(Kind::kTuple)))
        rejected("type_error", "a numpy array must be made of numbers").raise();
    const std::vector<Value>& items = value.as<Sequence>().items;
    if (depth == out.shape.size()) {
        if (!out.values.empty()) rejected("value_error", "a ragged numpy array").raise();
        out.shape.resize(depth + 1, static_cast<std::int64_t>(items.size()));
    }
    if (out.shape[depth] != static_cast<std::int64_t>(items.size()) || items.empty())
        rejected("value_error", "a ragged or empty numpy array").raise();
    for (const Value& item : items) flatten(host, item, depth + 1, out);
}

}  // namespace

const std::vector<NumpyEntry>& numpy_table() {
    using enum AluOp;
    static const std::vector<NumpyEntry> table = {
        {"add", kAdd, {}, nullptr, false},
        {"subtract", kSubtract, {}, nullptr, false},
        {"multiply", kMultiply, {}, nullptr, false},
        {"divide", kDivide, {}, nullptr, false},
        {"true_divide", kDivide, {}, nullptr, false},
        {"maximum", kMax, {}, nullptr, false},
        {"minimum", kMin, {}, nullptr, false},
        {"max", kMax, {}, nullptr, false},
        {"amax", kMax, {}, nullptr, false},
        {"min", kMin, {}, nullptr, false},
        {"amin", kMin, {}, nullptr, false},
        {"sum", kAdd, {}, nullptr, false},
        {"prod", kMultiply, {}, nullptr, false},
        {"power", kPower, {}, nullptr, false},
        {"mod", kMod, {}, nullptr, false},
        {"equal", kEqual, {}, nullptr, false},
        {"not_equal", kNotEqual, {}, nullptr, false},
        {"less", kLess, {}, nullptr, false},
        {"less_equal", kLessEqual, {}, nullptr, false},
        {"greater", kGreater, {}, nullptr, false},
        {"greater_equal", kGreaterEqual, {}, nullptr, false},
        {"logical_and", kLogicalAnd, {}, nullptr, false},
        {"logical_or", kLogicalOr, {}, nullptr, false},
        {"logical_xor", kLogicalXor, {}, nullptr, false},
        {"fmod", kFmod, {}, nullptr, false},
        {"bitwise_and", kBitwiseAnd, {}, nullptr, false},
        {"bitwise_or", kBitwiseOr, {}, nullptr, false},
        {"bitwise_xor", kBitwiseXor, {}, nullptr, false},
        {"left_shift", kShiftLeft, {}, nullptr, false},
        {"right_shift", kShiftRight, {}, nullptr, false},
        {"exp", kNone, A::kExp, std::exp, false},
        {"log", kNone, A::kLog, std::log, false},
        {"log2", kNone, {}, std::log2, false},
        {"sin", kNone, A::kSin, std::sin, false},
        {"cos", kNone, A::kCos, std::cos, false},
        {"tan", kNone, A::kTan, std::tan, false},
        {"arctan", kNone, A::kArctan, std::atan, false},
        {"tanh", kNone, A::kTanh, std::tanh, false},
        {"sqrt", kNone, A::kSqrt, std::sqrt, false},
        {"square", kNone, A::kSquare, square, false},
        {"abs", kAbsMax, A::kAbs, std::fabs, false},
        {"absolute", kAbsMax, A::kAbs, std::fabs, false},
        {"sign", kNone, A::kSign, sign, false},
        {"floor", kNone, A::kFloor, std::floor, false},
        {"ceil", kNone, A::kCeil, std::ceil, false},
        {"trunc", kNone, A::kTrunc, std::trunc, false},
        {"reciprocal", kNone, A::kReciprocal, reciprocal, false},
        {"copy", kBypass, A::kCopy, same, false},
        {"invert", kNone, A::kInvert, nullptr, false},
        {"logical_not", kNone, A::kLogicalNot, nullptr, false},
        {"negative", kNone, {}, negate, false},
        {"identity", kNone, {}, nullptr, false},
        {"eye", kNone, {}, nullptr, false},
        {"zeros", kNone, {}, nullptr, false},
        {"ones", kNone, {}, nullptr, false},
        {"full", kNone, {}, nullptr, false},
        {"arange", kNone, {}, nullptr, false},
        {"array", kNone, {}, nullptr, false},
        {"tril", kNone, {}, nullptr, false},
        {"triu", kNone, {}, nullptr, false},
        {"sqrt", kNone, {}, std::sqrt, true},
        {"exp", kNone, {}, std::exp, true},
        {"log", kNone, {}, std::log, true},
        {"log2", kNone, {}, std::log2, true},
        {"log10", kNone, {}, std::log10, true},
        {"sin", kNone, {}, std::sin, true},
        {"cos", kNone, {}, std::cos, true},
        {"tan", kNone, {}, std::tan, true},
        {"atan", kNone, {}, std::atan, true},
        {"tanh", kNone, {}, std::tanh, true},
        {"erf", kNone, {}, std::erf, true},
        {"fabs", kNone, {}, std::fabs, true},
        {"ceil", kNone, {}, std::ceil, true},
        {"floor", kNone, {}, std::floor, true},
        {"trunc", kNone, {}, std::trunc, true},
        {"pow", kPower, {}, nullptr, true},
        {"gcd", kNone, {}, nullptr, true},
        {"lcm", kNone, {}, nullptr, true},
        {"prod", kMultiply, {}, nullptr, true},
        {"isinf", kNone, {}, nullptr, true},
        {"isnan", kNone, {}, nullptr, true},
    };
    return table;
}

namespace {

/// Rounds a number to a floating-point dtype, to nearest with ties to even.
double rounded(DType dtype, double value) {
    if (dtype == DType::kFloat32) return static_cast<double>(static_cast<float>(value));
    if (value == 0 || !std::isfinite(value)) return value;
    const int digits = dtype == DType::kBFloat16     ? 8
                       : dtype == DType::kFloat8E4M3 ? 4
                       : dtype == DType::kFloat8E5M2 ? 3
                                                     : 11;  // float16, tfloat32
    const int smallest = dtype == DType::kFloat8E4M3                               ? -6
                         : dtype == DType::kFloat8E5M2 || dtype == DType::kFloat16 ? -14
                                                                                   : -126;
    const double largest = dtype == DType::kFloat8E4M3   ? 240.0
                           : dtype == DType::kFloat8E5M2 ? 57344.0
                           : dtype == DType::kFloat16    ? 65504.0
                                                         : std::numeric_limits<float>::max();
    int exponent = 0;
    std::frexp(value, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent - 1, smallest) - digits + 1);
    const double result = std::nearbyint(value / unit) * unit;
    if (std::fabs(result) > largest && dtype != DType::kTFloat32 && dtype != DType::kBFloat16)
        return std::copysign(std::numeric_limits<double>::infinity(), value);
    return result;
}

}  // namespace

Value Evaluator::convert(DType dtype, const Value& value) {
    if (value.is(Kind::kTile) || value.is(Kind::kPending))
        rejected("trace_value_access", "a tensor's value is not known at trace time").raise();
    if (!value.is_number())
        rejected("type_error",
                 fmt::format("cannot convert {} to {}", repr(value), to_string(dtype)))
            .raise();
    const auto wrap = [&](int bits, bool is_signed) {
        const double number = value.number();
        if (!value.is_integer() && !(std::fabs(number) < 9e18))
            rejected("value_error",
                     fmt::format("cannot convert {} to {}", number, to_string(dtype)))
                .raise();
        const std::int64_t whole =
            value.is_integer() ? value.integer() : static_cast<std::int64_t>(number);
        const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
        const std::uint64_t low = static_cast<std::uint64_t>(whole) & mask;
        std::int64_t made = static_cast<std::int64_t>(low);
        if (is_signed && (low >> (bits - 1) & 1U) != 0) made -= std::int64_t{1} << bits;
        Value result = Value::integer(made);
        result.set_dtype(dtype);
        return result;
    };
    switch (dtype) {
        case DType::kInt8:
            return wrap(8, true);
        case DType::kInt16:
            return wrap(16, true);
        case DType::kInt32:
            return wrap(32, true);
        case DType::kUInt8:
            return wrap(8, false);
        case DType::kUInt16:
            return wrap(16, false);
        case DType::kUInt32:
            return wrap(32, false);
        case DType::kBool:
            return Value::boolean(value.number() != 0);
        default: {
            Value result = Value::number(rounded(dtype, value.number()));
            result.set_dtype(dtype);
            return result;
        }
    }
}

namespace {

DType dtype_argument(const Evaluator& host, const Value& value) {
    if (value.is(Kind::kDType)) return static_cast<DType>(value.integer());
    if (value.is(Kind::kString))
        if (const auto parsed = parse_dtype(value.as<String>().text)) return *parsed;
    rejected("type_error", "not a dtype: " + host.repr(value)).raise();
}

}  // namespace

Value Evaluator::numpy_array(const std::string& name, std::vector<Value>& arguments,
                             std::vector<std::pair<int, Value>>& keywords) {
    const Ref<HostArray> array = heap_.make<HostArray>();
    Value dtype;
    Value fill;
    for (auto& [keyword, value] : keywords) {
        if (this->name(keyword) == "dtype") {
            dtype = value;
        } else if (arguments.empty() &&
                   (this->name(keyword) == "n" || this->name(keyword) == "N" ||
                    this->name(keyword) == "shape" || this->name(keyword) == "object")) {
            arguments.push_back(value);
        } else if (this->name(keyword) == "fill_value" && name == "full") {
            arguments.push_back(value);
        } else {
            rejected("type_error", fmt::format("np.{}() got an unexpected keyword argument '{}'",
                                               name, this->name(keyword)))
                .raise();
        }
    }
    const std::size_t needed = name == "full" ? 2 : 1;
    if (arguments.size() < needed)
        rejected("type_error", fmt::format("np.{}() is missing an argument", name)).raise();
    if (arguments.size() > needed && name != "arange") dtype = arguments[needed];
    double value = 0;
    if (name == "identity" || name == "eye") {
        const std::int64_t n = to_integer(arguments[0], "a shape");
        array->shape = shape_of(*this, tuple({Value::integer(n), Value::integer(n)}));
    } else if (name == "arange") {
        std::int64_t bounds[3] = {0, 0, 1};
        for (std::size_t k = 0; k < std::min<std::size_t>(arguments.size(), 3); ++k)
            bounds[k] = to_integer(arguments[k], "np.arange");
        if (arguments.size() == 1) std::swap(bounds[0], bounds[1]);
        Range range;
        range.start = bounds[0];
        range.stop = bounds[1];
        range.step = bounds[2];
        array->dtype = DType::kInt32;
        array->shape = shape_of(*this, Value::integer(range.step == 0 ? 0 : range.count()));
        for (std::int64_t k = 0; k < array->shape[0]; ++k)
            array->values.push_back(static_cast<double>(range.start + k * range.step));
    } else if (name == "array") {
        if (arguments[0].is(Kind::kArray)) return arguments[0];
        flatten(*this, arguments[0], 0, *array);
    } else if (name == "tril" || name == "triu") {
        if (!arguments[0].is(Kind::kArray) || arguments[0].as<HostArray>().shape.size() != 2)
            rejected("type_error", fmt::format("np.{}() needs a 2-D array", name)).raise();
        const HostArray& from = arguments[0].as<HostArray>();
        *static_cast<std::vector<double>*>(&array->values) = from.values;
        array->shape = from.shape;
        array->dtype = from.dtype;
        dtype = Value();
        const std::int64_t columns = from.shape[1];
        for (std::size_t k = 0; k < array->values.size(); ++k) {
            const auto row = static_cast<std::int64_t>(k) / columns;
            const auto column = static_cast<std::int64_t>(k) % columns;
            if (name == "tril" ? column > row : column < row) array->values[k] = 0;
        }
    } else {
        array->shape = shape_of(*this, arguments[0]);
        if (name == "ones") value = 1;
        if (name == "full") {
            if (!arguments[1].is_number()) rejected("type_error", "np.full needs a number").raise();
            value = arguments[1].number();
        }
    }
    if (dtype.is(Kind::kDType) || dtype.is(Kind::kString))
        array->dtype = dtype_argument(*this, dtype);
    const std::int64_t total = std::accumulate(array->shape.begin(), array->shape.end(),
                                               std::int64_t{1}, std::multiplies<>());
    heap_.grow(*array, total * 8);
    if (array->values.empty()) array->values.assign(static_cast<std::size_t>(total), value);
    if (name == "identity" || name == "eye")
        for (std::int64_t k = 0; k < array->shape[0]; ++k)
            array->values[static_cast<std::size_t>(k * (array->shape[0] + 1))] = 1;
    tick(total / 16);
    return Value::object(Kind::kArray, array);
}

Value Evaluator::call_numpy(int index, std::vector<Value>& arguments,
                            std::vector<std::pair<int, Value>>& keywords) {
    const NumpyEntry& entry = numpy_table()[index];
    const std::string name(entry.name);
    for (const char* maker :
         {"identity", "eye", "zeros", "ones", "full", "arange", "array", "tril", "triu"})
        if (!entry.in_math && name == maker) return numpy_array(name, arguments, keywords);
    for (const Value& argument : arguments)
        if (argument.is(Kind::kTile) || argument.is(Kind::kPending))
            rejected("trace_value_access", fmt::format("{}.{} cannot be applied to a tensor",
                                                       entry.in_math ? "math" : "np", name))
                .remedy(fmt::format("use nl.{} for tiles", name))
                .raise();
    if (!keywords.empty())
        unsupported("python_feature", fmt::format("keyword arguments of {}", name)).raise();
    if (arguments.size() == 1 && entry.unary != nullptr && arguments[0].is_number()) {
        const double x = arguments[0].number();
        const double y = entry.unary(x);
        if (entry.in_math && (std::isnan(y) || std::isinf(y)) && std::isfinite(x))
            rejected("value_error", "math domain error").raise();
        const bool whole = entry.in_math && (name == "ceil" || name == "floor" || name == "trunc");
        if (!whole) return Value::number(y);
        if (!(std::fabs(y) < 9e18)) rejected("value_error", "a number beyond 64 bits").raise();
        return Value::integer(static_cast<std::int64_t>(y));
    }
    if (arguments.size() == 1 && (name == "isinf" || name == "isnan") && arguments[0].is_number())
        return Value::boolean(name == "isinf" ? std::isinf(arguments[0].number())
                                              : std::isnan(arguments[0].number()));
    if (arguments.size() == 2 && (name == "gcd" || name == "lcm")) {
        const std::int64_t a = to_integer(arguments[0], "math.gcd");
        const std::int64_t b = to_integer(arguments[1], "math.gcd");
        if (a == INT64_MIN || b == INT64_MIN) checked_subtract(0, INT64_MIN);
        const std::int64_t g = std::gcd(a, b);
        if (name == "gcd") return Value::integer(g);
        return Value::integer(g == 0 ? 0 : std::abs(checked_multiply(a / g, b)));
    }
    const bool reducible = name == "prod" || name == "sum" || name == "max" || name == "min" ||
                           name == "amax" || name == "amin";
    if (arguments.size() == 1 && reducible && !arguments[0].is_number()) {
        const std::vector<Value> items = items_of(arguments[0]);
        Value total = Value::integer(name == "prod" ? 1 : 0);
        for (std::size_t k = 0; k < items.size(); ++k) {
            if (!items[k].is_number()) rejected("type_error", name + " needs numbers").raise();
            if (name == "prod" || name == "sum") {
                total = binary(name == "prod" ? Op::kMultiply : Op::kAdd, total, items[k]);
            } else if (k == 0 || truth(compare(name.find("ax") != std::string::npos ? Op::kGreater
                                                                                    : Op::kLess,
                                               items[k], total))) {
                total = items[k];
            }
        }
        return total;
    }
    if (arguments.size() == 2 && entry.alu != AluOp::kNone && arguments[0].is_number() &&
        arguments[1].is_number())
        return Value::number(binary_value(entry.alu, arguments[0].number(), arguments[1].number()));
    rejected("type_error", fmt::format("{}.{} cannot be called with these arguments",
                                       entry.in_math ? "math" : "np", name))
        .raise();
}

}  // namespace accelopt::nki::interp
