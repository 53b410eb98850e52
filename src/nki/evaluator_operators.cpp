#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

DType dtype_of(const Value& tile) {
    if (tile.is(Kind::kTile)) return tile.as<Tile>().dtype;
    const Pending& pending = tile.as<Pending>();
    return pending.done ? pending.done->dtype : pending.request.dtype;
}

/// A member of nisa.nc_version, an IntEnum, as its number.
Value plain_version(const Value& value) {
    if (!value.is(Kind::kToken)) return value;
    if (value.integer() == static_cast<int>(TokenId::kGen2)) return Value::integer(2);
    if (value.integer() == static_cast<int>(TokenId::kGen3)) return Value::integer(3);
    return value;
}

bool is_tile(const Value& value) { return value.is(Kind::kTile) || value.is(Kind::kPending); }

[[noreturn]] void no_operator(Op op, const Value& a, const Value& b) {
    rejected("type_error", fmt::format("unsupported operand types for {}: '{}' and '{}'",
                                       op_text(op), kind_name(a.kind()), kind_name(b.kind())))
        .raise();
}

[[noreturn]] void zero_division() { rejected("value_error", "division by zero").raise(); }

AluOp alu_of(Op op) {
    switch (op) {
        case Op::kAdd:
            return AluOp::kAdd;
        case Op::kSubtract:
            return AluOp::kSubtract;
        case Op::kMultiply:
            return AluOp::kMultiply;
        case Op::kDivide:
            return AluOp::kDivide;
        case Op::kModulo:
            return AluOp::kMod;
        case Op::kPower:
            return AluOp::kPower;
        case Op::kBitAnd:
            return AluOp::kBitwiseAnd;
        case Op::kBitOr:
            return AluOp::kBitwiseOr;
        case Op::kBitXor:
            return AluOp::kBitwiseXor;
        case Op::kShiftLeft:
            return AluOp::kShiftLeft;
        case Op::kShiftRight:
            return AluOp::kShiftRight;
        case Op::kEqual:
            return AluOp::kEqual;
        case Op::kNotEqual:
            return AluOp::kNotEqual;
        case Op::kLess:
            return AluOp::kLess;
        case Op::kLessEqual:
            return AluOp::kLessEqual;
        case Op::kGreater:
            return AluOp::kGreater;
        case Op::kGreaterEqual:
            return AluOp::kGreaterEqual;
        default:
            return AluOp::kNone;
    }
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
    const std::int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

double float_mod(double a, double b) {
    double r = std::fmod(a, b);
    if (r != 0 && (r < 0) != (b < 0)) r += b;
    return r;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
    if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    if (exponent > 4096) exhausted("memory", "an integer power is too large").limit(4096).raise();
    std::int64_t result = 1;
    for (std::int64_t k = 0; k < exponent; ++k) {
        if (__builtin_mul_overflow(result, base, &result))
            exhausted("memory", "an integer power is beyond 64 bits").limit(64).raise();
    }
    return result;
}

}  // namespace

Value Evaluator::integer_arithmetic(Op op, std::int64_t a, std::int64_t b) {
    switch (op) {
        case Op::kAdd:
            return Value::integer(checked_add(a, b));
        case Op::kSubtract:
            return Value::integer(checked_subtract(a, b));
        case Op::kMultiply:
            return Value::integer(checked_multiply(a, b));
        case Op::kDivide:
            if (b == 0) zero_division();
            return Value::number(static_cast<double>(a) / static_cast<double>(b));
        case Op::kFloorDivide:
            if (b == 0) zero_division();
            if (b == -1) return Value::integer(checked_subtract(0, a));
            return Value::integer(floor_div(a, b));
        case Op::kModulo:
            if (b == 0) zero_division();
            if (b == -1) return Value::integer(0);
            return Value::integer(a - floor_div(a, b) * b);
        case Op::kPower:
            if (b >= 0) return Value::integer(integer_power(a, b));
            if (a == 0) zero_division();
            return Value::number(std::pow(static_cast<double>(a), static_cast<double>(b)));
        case Op::kBitAnd:
            return Value::integer(a & b);
        case Op::kBitOr:
            return Value::integer(a | b);
        case Op::kBitXor:
            return Value::integer(a ^ b);
        case Op::kShiftLeft:
            if (b < 0) rejected("value_error", "negative shift count").raise();
            if (a == 0) return Value::integer(0);
            if (b > 62) exhausted("memory", "a shift result is beyond 64 bits").limit(64).raise();
            return Value::integer(checked_multiply(a, std::int64_t{1} << b));
        case Op::kShiftRight:
            if (b < 0) rejected("value_error", "negative shift count").raise();
            return Value::integer(a >> std::min<std::int64_t>(b, 63));
        default:
            break;
    }
    no_operator(op, Value::integer(a), Value::integer(b));
}

Value Evaluator::arithmetic(Op op, const Value& a, const Value& b) {
    if (a.is_integer() && b.is_integer()) {
        Value result = integer_arithmetic(op, a.integer(), b.integer());
        const bool logical = op == Op::kBitAnd || op == Op::kBitOr || op == Op::kBitXor;
        if (logical && a.is(Kind::kBool) && b.is(Kind::kBool))
            return Value::boolean(result.integer() != 0);
        return result;
    }
    const double x = a.number();
    const double y = b.number();
    switch (op) {
        case Op::kAdd:
            return Value::number(x + y);
        case Op::kSubtract:
            return Value::number(x - y);
        case Op::kMultiply:
            return Value::number(x * y);
        case Op::kDivide:
            if (y == 0) zero_division();
            return Value::number(x / y);
        case Op::kFloorDivide:
            if (y == 0) zero_division();
            return Value::number(std::floor(x / y));
        case Op::kModulo:
            if (y == 0) zero_division();
            return Value::number(float_mod(x, y));
        case Op::kPower:
            if (x == 0 && y < 0) zero_division();
            if (x < 0 && y != std::floor(y))
                unsupported("python_feature", "a complex number").raise();
            return Value::number(std::pow(x, y));
        default:
            break;
    }
    no_operator(op, a, b);
}

Value Evaluator::sequence_operator(Op op, const Value& a, const Value& b) {
    if (op == Op::kAdd && a.kind() == b.kind()) {
        if (a.is(Kind::kString)) return string(a.as<String>().text + b.as<String>().text);
        std::vector<Value> items = items_of(a);
        for (Value& item : items_of(b)) items.push_back(std::move(item));
        return a.is(Kind::kTuple) ? tuple(std::move(items)) : list(std::move(items));
    }
    const Value& sequence = a.is_integer() ? b : a;
    const Value& factor = a.is_integer() ? a : b;
    if (op == Op::kMultiply && factor.is_integer()) {
        const std::int64_t times = std::max<std::int64_t>(0, factor.integer());
        const std::size_t size = sequence.is(Kind::kString) ? sequence.as<String>().text.size()
                                                            : sequence.as<Sequence>().items.size();
        const std::int64_t total = checked_multiply(times, static_cast<std::int64_t>(size));
        if (total > 4'000'000)
            exhausted("memory", "a repeated sequence is too long").limit(4'000'000).raise();
        tick(total);
        if (sequence.is(Kind::kString)) {
            std::string text;
            for (std::int64_t k = 0; k < times && size > 0; ++k) text += sequence.as<String>().text;
            return string(std::move(text));
        }
        std::vector<Value> items;
        for (std::int64_t k = 0; k < times && size > 0; ++k)
            for (const Value& item : sequence.as<Sequence>().items) items.push_back(item);
        return sequence.is(Kind::kTuple) ? tuple(std::move(items)) : list(std::move(items));
    }
    if (op == Op::kModulo && a.is(Kind::kString)) return percent_format(a.as<String>().text, b);
    no_operator(op, a, b);
}

Value Evaluator::affine_operator(Op op, const Value& a, const Value& b) {
    const auto make = [&](const AffineExpr& expr) {
        return Value::object(Kind::kAffine, heap_.make<Affine>(expr));
    };
    const bool left = a.is(Kind::kAffine);
    const bool right = b.is(Kind::kAffine);
    if (left && right) {
        const AffineExpr& x = a.as<Affine>().expr;
        const AffineExpr& y = b.as<Affine>().expr;
        if (op == Op::kAdd) return make(add(x, y));
        if (op == Op::kSubtract) return make(add(x, scale(y, -1)));
    } else if ((left ? b : a).is_integer()) {
        const AffineExpr& x = (left ? a : b).as<Affine>().expr;
        const std::int64_t k = (left ? b : a).integer();
        if (op == Op::kAdd) return make(add(x, k));
        if (op == Op::kSubtract)
            return make(left ? add(x, checked_subtract(0, k)) : add(scale(x, -1), k));
        if (op == Op::kMultiply) return make(scale(x, k));
    }
    unsupported("python_feature",
                fmt::format("an index expression must be affine: '{}' and '{}' joined by {}",
                            kind_name(a.kind()), kind_name(b.kind()), op_text(op)))
        .remedy("use sums, differences and integer multiples of nl.arange")
        .raise();
}

/// Sums of a tile's values with index expressions and integers, and integer multiples.
Value Evaluator::dynamic_operator(Op op, const Value& a, const Value& b) {
    const auto dynamic_of = [&](const Value& value) {
        const Ref<Dynamic> made = heap_.make<Dynamic>();
        if (value.is(Kind::kDynamic)) {
            made->tile = value.as<Dynamic>().tile;
            made->scale = value.as<Dynamic>().scale;
            made->offset = value.as<Dynamic>().offset;
        } else {
            made->tile = materialise(value);
        }
        return made;
    };
    const bool left = a.is(Kind::kDynamic) || is_tile(a);
    const Value& other = left ? b : a;
    const bool summed = op == Op::kAdd || op == Op::kSubtract;
    if (other.is(Kind::kAffine) ? summed : other.is_integer() && (summed || op == Op::kMultiply)) {
        const Ref<Dynamic> made = dynamic_of(left ? a : b);
        if (op == Op::kMultiply) {
            made->scale = checked_multiply(made->scale, other.integer());
            made->offset = scale(made->offset, other.integer());
            return Value::object(Kind::kDynamic, made);
        }
        AffineExpr term;
        if (other.is(Kind::kAffine)) {
            term = other.as<Affine>().expr;
        } else {
            term.constant = other.integer();
        }
        if (op == Op::kSubtract && left) term = scale(term, -1);
        if (op == Op::kSubtract && !left) {
            made->scale = checked_subtract(0, made->scale);
            made->offset = scale(made->offset, -1);
        }
        made->offset = add(made->offset, term);
        return Value::object(Kind::kDynamic, made);
    }
    unsupported("python_feature", fmt::format("an index that joins a tensor and '{}' by {}",
                                              kind_name(other.kind()), op_text(op)))
        .remedy("compute it with nisa.iota and elementwise operations first")
        .raise();
}

Value Evaluator::mask_operator(Op op, const Value& a, const Value& b) {
    const auto mask_of = [](const Value& value) {
        if (value.is(Kind::kMask)) return value.as<Mask>().expr;
        MaskExpr expr;
        expr.never = !value.is(Kind::kBool) || value.integer() == 0;
        return expr;
    };
    const auto usable = [](const Value& value) {
        return value.is(Kind::kMask) || value.is(Kind::kBool);
    };
    if (op != Op::kBitAnd || !usable(a) || !usable(b))
        rejected("unsupported_expression_in_mask",
                 fmt::format("masks cannot be joined by {}", op_text(op)))
            .remedy("join comparisons with &")
            .raise();
    MaskExpr joined = mask_of(a);
    const MaskExpr other = mask_of(b);
    joined.comparisons += other.comparisons;
    joined.never = joined.never || other.never;
    joined.terms.insert(joined.terms.end(), other.terms.begin(), other.terms.end());
    if (joined.terms.size() > 64)
        exhausted("memory", "a mask has too many comparisons").limit(64).raise();
    const Ref<Mask> mask = heap_.make<Mask>(std::move(joined));
    heap_.grow(*mask, static_cast<std::int64_t>(mask->expr.terms.size() * sizeof(AffineExpr)));
    return Value::object(Kind::kMask, mask);
}

Value Evaluator::binary(Op op, const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) {
        const auto marks = static_cast<std::uint8_t>(a.marks() | b.marks());
        if (marks == 0) return arithmetic(op, a, b);
        Value result = arithmetic(op, a, b);
        const bool affine = op == Op::kAdd || op == Op::kSubtract ||
                            (op == Op::kMultiply && (a.marks() == 0 || b.marks() == 0));
        result.set_marks(affine ? marks : static_cast<std::uint8_t>(marks | Value::kNotAffine));
        return result;
    }
    if (a.is(Kind::kDynamic) || b.is(Kind::kDynamic) || (is_tile(a) && b.is(Kind::kAffine)) ||
        (is_tile(b) && a.is(Kind::kAffine)))
        return dynamic_operator(op, a, b);
    if (is_tile(a) || is_tile(b)) {
        const AluOp alu = alu_of(op);
        const bool other_fits = (is_tile(a) || a.is_number()) && (is_tile(b) || b.is_number());
        if (!other_fits) no_operator(op, a, b);
        if (alu == AluOp::kNone)
            unsupported("python_feature", fmt::format("the operator {} on tiles", op_text(op)))
                .raise();
        return binary_tiles(alu, a, b, request_here(Opcode::kTensorTensor), std::nullopt);
    }
    if (a.is(Kind::kArray) || b.is(Kind::kArray)) return array_operator(op, a, b);
    if (a.is(Kind::kMask) || b.is(Kind::kMask)) return mask_operator(op, a, b);
    if (a.is(Kind::kAffine) || b.is(Kind::kAffine)) return affine_operator(op, a, b);
    const auto sequence = [](const Value& v) {
        return v.is(Kind::kTuple) || v.is(Kind::kList) || v.is(Kind::kString);
    };
    if (sequence(a) || sequence(b)) return sequence_operator(op, a, b);
    if (op == Op::kBitOr && a.is(Kind::kDict) && b.is(Kind::kDict)) {
        const Ref<Mapping> merged = heap_.make<Mapping>();
        for (const Value* source : {&a, &b})
            for (const auto& [key, value] : source->as<Mapping>().entries)
                set_entry(*merged, key, value);
        return Value::object(Kind::kDict, merged);
    }
    no_operator(op, a, b);
}

Value Evaluator::unary(Op op, const Value& a) {
    if (op == Op::kNot) {
        Value result = Value::boolean(!truth(a));
        result.set_marks(a.marks());
        return result;
    }
    if (a.is_integer() && a.marks() != 0 && op != Op::kInvert) {
        Value result = op == Op::kNegative ? Value::integer(checked_subtract(0, a.integer()))
                                           : Value::integer(a.integer());
        result.set_marks(a.marks());
        return result;
    }
    if (a.is_integer()) {
        if (op == Op::kNegative) return Value::integer(checked_subtract(0, a.integer()));
        if (op == Op::kPositive) return Value::integer(a.integer());
        if (op == Op::kInvert) return Value::integer(~a.integer());
    }
    if (a.is(Kind::kFloat)) {
        if (op == Op::kNegative) return Value::number(-a.number());
        if (op == Op::kPositive) return a;
    }
    if (a.is(Kind::kAffine) && op == Op::kNegative)
        return affine_operator(Op::kMultiply, a, Value::integer(-1));
    if (is_tile(a)) {
        if (op == Op::kPositive) return a;
        if (op == Op::kNegative)
            return binary_tiles(AluOp::kMultiply, a, Value::number(-1.0),
                                request_here(Opcode::kTensorScalar), dtype_of(a));
        OpRequest request = request_here(Opcode::kActivation);
        const Ref<Tile> source = builder_.settle(materialise(a), request);
        request.function =
            source->dtype == DType::kBool ? ActFunction::kLogicalNot : ActFunction::kInvert;
        request.scale.immediate = 1.0;
        request.add_source(source);
        request.shape = source->shape();
        request.dtype = source->dtype;
        return pending(std::move(request));
    }
    rejected("type_error",
             fmt::format("bad operand type for unary {}: '{}'", op_text(op), kind_name(a.kind())))
        .raise();
}

Value Evaluator::compare(Op op, const Value& a, const Value& b) {
    Value result = compare_here(op, a, b);
    if ((a.marks() | b.marks()) != 0 && result.is(Kind::kBool))
        result.set_marks(static_cast<std::uint8_t>(a.marks() | b.marks()));
    return result;
}

Value Evaluator::compare_here(Op op, const Value& a, const Value& b) {
    switch (op) {
        case Op::kIs:
        case Op::kIsNot: {
            bool same = a.kind() == b.kind();
            if (same && a.is_object()) same = a.address() == b.address();
            if (same && !a.is_object()) same = equal(a, b);
            return Value::boolean(same == (op == Op::kIs));
        }
        case Op::kIn:
        case Op::kNotIn: {
            bool found = false;
            if (b.is(Kind::kString)) {
                if (!a.is(Kind::kString)) no_operator(op, a, b);
                found = b.as<String>().text.find(a.as<String>().text) != std::string::npos;
            } else {
                for (const Value& item : items_of(b)) found = found || equal(a, item);
            }
            return Value::boolean(found == (op == Op::kIn));
        }
        default:
            break;
    }
    if (is_tile(a) || is_tile(b)) {
        const bool other_fits = (is_tile(a) || a.is_number()) && (is_tile(b) || b.is_number());
        if (other_fits) return binary(op, a, b);
    }
    const auto indexlike = [](const Value& v) { return v.is(Kind::kAffine) || v.is_integer(); };
    if ((a.is(Kind::kAffine) || b.is(Kind::kAffine)) && indexlike(a) && indexlike(b)) {
        const auto expr = [](const Value& v) {
            if (v.is(Kind::kAffine)) return v.as<Affine>().expr;
            AffineExpr constant;
            constant.constant = v.integer();
            return constant;
        };
        const Ref<Mask> mask =
            heap_.make<Mask>(interp::compare(expr(a), expr(b), std::string(op_text(op))));
        return Value::object(Kind::kMask, mask);
    }
    if (a.is(Kind::kToken) || b.is(Kind::kToken)) {
        const Value x = plain_version(a);
        const Value y = plain_version(b);
        if (x.is_integer() && y.is_integer()) return compare_here(op, x, y);
    }
    if (op == Op::kEqual) return Value::boolean(equal(a, b));
    if (op == Op::kNotEqual) return Value::boolean(!equal(a, b));
    const auto ordered = [op](auto x, auto y) {
        switch (op) {
            case Op::kLess:
                return x < y;
            case Op::kLessEqual:
                return x <= y;
            case Op::kGreater:
                return x > y;
            default:
                return x >= y;
        }
    };
    if (a.is_integer() && b.is_integer()) return Value::boolean(ordered(a.integer(), b.integer()));
    if (a.is_number() && b.is_number()) return Value::boolean(ordered(a.number(), b.number()));
    if (a.is(Kind::kString) && b.is(Kind::kString))
        return Value::boolean(ordered(a.as<String>().text.compare(b.as<String>().text), 0));
    if (a.kind() == b.kind() && (a.is(Kind::kTuple) || a.is(Kind::kList))) {
        const auto& x = a.as<Sequence>().items;
        const auto& y = b.as<Sequence>().items;
        for (std::size_t k = 0; k < std::min(x.size(), y.size()); ++k)
            if (!equal(x[k], y[k])) return compare(op, x[k], y[k]);
        return Value::boolean(ordered(x.size(), y.size()));
    }
    no_operator(op, a, b);
}

}  // namespace accelopt::nki::interp
