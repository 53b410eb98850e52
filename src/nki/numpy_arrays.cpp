#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

/// Arithmetic of host arrays: what trace-time code computes with numpy, tables of indices above
/// all. Integers are int32 whatever numpy would make of them, other numbers float32.
namespace accelopt::nki::interp {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::size_t kMaxArrayDims = 8;

Value element(DType dtype, double value) {
    if (is_float(dtype)) return Value::number(value);
    if (!(std::fabs(value) < 9e18))
        rejected("value_error", "an element of a numpy array is beyond 64 bits").raise();
    return Value::integer(static_cast<std::int64_t>(value));
}

Value element_of(const HostArray& array, std::size_t k) {
    return element(array.dtype, array.values[k]);
}

/// An operand of an operator: an array, or a number as one of no dimensions.
struct ArrayOperand {
    Shape shape;
    DType dtype = DType::kFloat32;
    std::vector<double> values;
};

ArrayOperand operand_of(const Value& value) {
    if (value.is(Kind::kArray)) {
        const HostArray& array = value.as<HostArray>();
        return {array.shape, array.dtype, array.values};
    }
    if (!value.is_number())
        rejected("type_error", "the other operand of a numpy array is neither array nor number")
            .raise();
    return {{}, value.is_integer() ? DType::kInt32 : DType::kFloat32, {value.number()}};
}

/// The shape of two that are broadcast; dimensions of one element repeat, as numpy has it.
Shape broadcast(const Shape& a, const Shape& b) {
    Shape shape(std::max(a.size(), b.size()));
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::int64_t n = d < a.size() ? a[a.size() - 1 - d] : 1;
        const std::int64_t m = d < b.size() ? b[b.size() - 1 - d] : 1;
        if (n != m && n != 1 && m != 1)
            rejected("shape_mismatch", fmt::format("the arrays {} and {} do not broadcast",
                                                   shape_text(a), shape_text(b)))
                .shape(a)
                .shape(b)
                .raise();
        shape[shape.size() - 1 - d] = n == 1 ? m : n;
    }
    return shape;
}

/// The element of `array` at position k of the broadcast shape.
std::size_t position(const ArrayOperand& array, const Shape& shape, std::int64_t k) {
    std::int64_t at = 0;
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
        const std::int64_t index = k % shape[d];
        k /= shape[d];
        const std::size_t from_last = shape.size() - 1 - d;
        if (from_last >= array.shape.size()) continue;
        const std::int64_t n = array.shape[array.shape.size() - 1 - from_last];
        if (n != 1) at += index * stride;
        stride *= n;
    }
    return static_cast<std::size_t>(at);
}

}  // namespace

Value Evaluator::array_operator(Op op, const Value& a, const Value& b) {
    const ArrayOperand x = operand_of(a);
    const ArrayOperand y = operand_of(b);
    const Ref<HostArray> made = heap_.make<HostArray>();
    made->shape = broadcast(x.shape, y.shape);
    if (made->shape.size() > kMaxArrayDims)
        rejected("value_error", "a numpy array has too many dimensions").raise();
    std::int64_t total = 1;
    for (const std::int64_t n : made->shape) total = checked_multiply(total, n);
    heap_.grow(*made, checked_multiply(total, 8));
    tick(total);
    const bool whole = !is_float(x.dtype) && !is_float(y.dtype) && op != Op::kDivide;
    made->dtype = whole ? DType::kInt32 : DType::kFloat32;
    made->values.reserve(static_cast<std::size_t>(total));
    for (std::int64_t k = 0; k < total; ++k)
        made->values.push_back(arithmetic(op,
                                          element(x.dtype, x.values[position(x, made->shape, k)]),
                                          element(y.dtype, y.values[position(y, made->shape, k)]))
                                   .number());
    return Value::object(Kind::kArray, made);
}

std::vector<Value> Evaluator::array_items(const HostArray& array) {
    const std::int64_t rows = array.shape.empty() ? 0 : array.shape[0];
    tick(static_cast<std::int64_t>(array.values.size()));
    std::vector<Value> items;
    if (array.shape.size() == 1) {
        for (std::size_t k = 0; k < array.values.size(); ++k) items.push_back(element_of(array, k));
        return items;
    }
    const std::size_t size = rows > 0 ? array.values.size() / static_cast<std::size_t>(rows) : 0;
    for (std::int64_t row = 0; row < rows; ++row) {
        const Ref<HostArray> part = heap_.make<HostArray>();
        heap_.grow(*part, static_cast<std::int64_t>(size * 8));
        part->shape.assign(array.shape.begin() + 1, array.shape.end());
        part->dtype = array.dtype;
        const auto from = array.values.begin() + row * static_cast<std::int64_t>(size);
        part->values.assign(from, from + static_cast<std::int64_t>(size));
        items.push_back(Value::object(Kind::kArray, part));
    }
    return items;
}

Value Evaluator::array_element(const HostArray& array, const Value& index) {
    refuse_replay();  // what stands there need not step with the loop variable
    Value current = Value::none();
    const std::vector<Value> places =
        index.is(Kind::kTuple) ? index.as<Sequence>().items : std::vector<Value>{index};
    const HostArray* from = &array;
    for (std::size_t d = 0; d < places.size(); ++d) {
        if (d > 0 && !current.is(Kind::kArray))
            rejected("value_error", "too many indices for a numpy array").raise();
        if (d > 0) from = &current.as<HostArray>();
        if (!places[d].is_integer())
            unsupported("python_feature", "a numpy array indexed by anything but integers").raise();
        std::int64_t k = places[d].integer();
        const std::int64_t rows = from->shape.empty() ? 0 : from->shape[0];
        if (k < 0) k += rows;
        if (k < 0 || k >= rows)
            rejected("value_error", "a numpy array index is out of range").limit(rows).raise();
        Value next = array_items(*from)[static_cast<std::size_t>(k)];
        current = std::move(next);
    }
    return current;
}

Value Evaluator::array_reduction(const std::string& name, const HostArray& array) {
    tick(static_cast<std::int64_t>(array.values.size()));
    if (array.values.empty()) rejected("value_error", "a numpy array is empty").raise();
    Value total = element_of(array, 0);
    for (std::size_t k = 1; k < array.values.size(); ++k) {
        const Value item = element_of(array, k);
        if (name == "sum" || name == "prod") {
            total = arithmetic(name == "sum" ? Op::kAdd : Op::kMultiply, total, item);
        } else if (name == "max" ? item.number() > total.number()
                                 : item.number() < total.number()) {
            total = item;
        }
    }
    return total;
}

}  // namespace accelopt::nki::interp
