#include <fmt/format.h>

#include <cmath>

#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/nesting.h"

namespace accelopt::nki::interp {
namespace {

constexpr int kMaxDepth = 60;  ///< of nested values, when compared or printed
/// Steps charged per item of a copied list: bounds the copies that are alive at once.
constexpr std::int64_t kItemSteps = 4;

}  // namespace

Value Evaluator::string(std::string text) {
    const auto size = static_cast<std::int64_t>(text.size());
    const Ref<String> object = heap_.make<String>(std::move(text));
    heap_.grow(*object, size);
    return Value::object(Kind::kString, object);
}

Value Evaluator::tuple(std::vector<Value> items) {
    const Ref<Sequence> sequence = heap_.make<Sequence>();
    heap_.grow(*sequence, static_cast<std::int64_t>(items.size() * sizeof(Value)));
    sequence->items = std::move(items);
    return Value::object(Kind::kTuple, sequence);
}

Value Evaluator::list(std::vector<Value> items) {
    const Value made = tuple(std::move(items));
    made.as<Sequence>().module_level = !in_kernel_;
    return Value::object(Kind::kList, made.ref<Sequence>());
}

Value Evaluator::shape_tuple(const std::vector<std::int64_t>& shape) {
    std::vector<Value> items;
    for (const std::int64_t n : shape) items.push_back(Value::integer(n));
    return tuple(std::move(items));
}

void Evaluator::append(Sequence& sequence, Value value) {
    heap_.grow(sequence, sizeof(Value));
    sequence.items.push_back(std::move(value));
}

void Evaluator::check_mutable(const Container& container) const {
    if (!in_kernel_ || !container.module_level) return;
    unsupported("mutable_global", "the kernel changes a list or dict of the module")
        .remedy("create it inside the kernel, or make it a tuple")
        .raise();
}

void Evaluator::set_entry(Mapping& mapping, Value key, Value value) {
    if (key.is(Kind::kList) || key.is(Kind::kDict) || key.is(Kind::kSet))
        rejected("type_error", fmt::format("unhashable type: '{}'", kind_name(key.kind()))).raise();
    tick(1 + static_cast<std::int64_t>(mapping.entries.size() / 16));
    for (auto& [have, slot] : mapping.entries) {
        if (!equal(have, key)) continue;
        slot = std::move(value);
        return;
    }
    heap_.grow(mapping, 2 * sizeof(Value));
    mapping.entries.emplace_back(std::move(key), std::move(value));
}

bool Evaluator::truth(const Value& value) {
    switch (value.kind()) {
        case Kind::kNone:
            return false;
        case Kind::kBool:
        case Kind::kInt:
            return value.integer() != 0;
        case Kind::kFloat:
            return value.number() != 0;
        case Kind::kString:
            return !value.as<String>().text.empty();
        case Kind::kTuple:
        case Kind::kList:
            return !value.as<Sequence>().items.empty();
        case Kind::kDict:
        case Kind::kSet:
            return !value.as<Mapping>().entries.empty();
        case Kind::kRange:
            return value.as<Range>().count() > 0;
        case Kind::kAffine:
        case Kind::kMask:
            rejected("control_flow_condition_depending_on_arange",
                     "control flow cannot depend on nl.arange or nl.mgrid")
                .remedy("pass the condition as the mask of an operation")
                .raise();
        case Kind::kTile:
        case Kind::kPending: {
            const std::vector<std::int64_t> shape = value.is(Kind::kTile)
                                                        ? value.as<Tile>().shape()
                                                        : value.as<Pending>().request.shape;
            std::int64_t count = 1;
            for (const std::int64_t n : shape) count *= n;
            if (count == 1)
                rejected("dynamic_control_flow_not_supported",
                         "control flow cannot depend on the value of a tensor")
                    .shape(shape)
                    .raise();
            rejected("ambiguous_tensor_truth_value",
                     "the truth value of a tensor with several elements is ambiguous")
                .shape(shape)
                .remedy("use &, | and ~ elementwise; compare with `is None` for optional tensors")
                .raise();
        }
        default:
            return true;
    }
}

bool Evaluator::equal(const Value& a, const Value& b, int depth) {
    if (depth > kMaxDepth) exhausted("recursion", "values nest too deeply").raise();
    tick();
    if (a.is_number() && b.is_number()) {
        if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
        return a.number() == b.number();
    }
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case Kind::kString:
            return a.as<String>().text == b.as<String>().text;
        case Kind::kTuple:
        case Kind::kList: {
            const auto& x = a.as<Sequence>().items;
            const auto& y = b.as<Sequence>().items;
            if (x.size() != y.size()) return false;
            for (std::size_t k = 0; k < x.size(); ++k)
                if (!equal(x[k], y[k], depth + 1)) return false;
            return true;
        }
        case Kind::kDict:
        case Kind::kSet: {
            const auto& x = a.as<Mapping>().entries;
            const auto& y = b.as<Mapping>().entries;
            if (x.size() != y.size()) return false;
            for (const auto& [key, value] : x) {
                bool found = false;
                for (const auto& [other, slot] : y)
                    found =
                        found || (equal(key, other, depth + 1) && equal(value, slot, depth + 1));
                if (!found) return false;
            }
            return true;
        }
        case Kind::kRange: {
            const Range& x = a.as<Range>();
            const Range& y = b.as<Range>();
            return x.start == y.start && x.stop == y.stop && x.step == y.step;
        }
        default:
            return a.is_object() ? a.address() == b.address() : a.integer() == b.integer();
    }
}

namespace {

std::string number_text(double value) {
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if (std::isnan(value)) return "nan";
    if (value == std::floor(value) && std::abs(value) < 1e16) return fmt::format("{:.1f}", value);
    return fmt::format("{}", value);
}

}  // namespace

std::string Evaluator::repr(const Value& value, int depth) const {
    constexpr std::size_t kMaxText = 400;
    if (depth > 6) return "...";
    const auto join = [&](const std::vector<Value>& items, const char* open, const char* close) {
        std::string text = open;
        for (std::size_t k = 0; k < items.size() && text.size() < kMaxText; ++k)
            text += (k > 0 ? ", " : "") + repr(items[k], depth + 1);
        return text + close;
    };
    switch (value.kind()) {
        case Kind::kNone:
            return "None";
        case Kind::kBool:
            return value.integer() != 0 ? "True" : "False";
        case Kind::kInt:
            return std::to_string(value.integer());
        case Kind::kFloat:
            return number_text(value.number());
        case Kind::kString:
            return "'" + value.as<String>().text.substr(0, kMaxText) + "'";
        case Kind::kDType:
            return std::string(to_string(static_cast<DType>(value.integer())));
        case Kind::kTuple: {
            const auto& items = value.as<Sequence>().items;
            return join(items, "(", items.size() == 1 ? ",)" : ")");
        }
        case Kind::kList:
            return join(value.as<Sequence>().items, "[", "]");
        case Kind::kTile:
            return "tile" + shape_text(value.as<Tile>().shape());
        default:
            return fmt::format("<{}>", kind_name(value.kind()));
    }
}

std::string Evaluator::str(const Value& value) const {
    return value.is(Kind::kString) ? value.as<String>().text : repr(value);
}

std::int64_t Evaluator::to_integer(const Value& value, const char* what) const {
    if (value.is_integer()) return value.integer();
    if (value.is(Kind::kTile) || value.is(Kind::kPending))
        rejected("trace_value_access",
                 fmt::format("{} needs a number known at trace time, not a tensor", what))
            .raise();
    rejected("type_error", fmt::format("{} needs an int, not {}", what, kind_name(value.kind())))
        .raise();
}

std::vector<Value> Evaluator::items_of(const Value& iterable) {
    std::vector<Value> items;
    switch (iterable.kind()) {
        case Kind::kTuple:
        case Kind::kList:
            tick(kItemSteps * static_cast<std::int64_t>(iterable.as<Sequence>().items.size()));
            return iterable.as<Sequence>().items;
        case Kind::kSet:
        case Kind::kDict:
            for (const auto& [key, value] : iterable.as<Mapping>().entries) items.push_back(key);
            tick(static_cast<std::int64_t>(items.size()));
            return items;
        case Kind::kString:
            for (const char c : iterable.as<String>().text)
                items.push_back(string(std::string(1, c)));
            tick(static_cast<std::int64_t>(items.size()));
            return items;
        case Kind::kRange: {
            const Range& range = iterable.as<Range>();
            const std::int64_t n = range.count();
            if (n > 4'000'000)
                exhausted("memory", "a range is too long to be made a list")
                    .limit(4'000'000)
                    .raise();
            tick(kItemSteps * n);
            for (std::int64_t k = 0; k < n; ++k)
                items.push_back(Value::integer(range.start + k * range.step));
            return items;
        }
        case Kind::kArray:
            return array_items(iterable.as<HostArray>());
        case Kind::kTile:
        case Kind::kPending:
            rejected("trace_value_access", "a tensor cannot be iterated over")
                .remedy("loop over a range and index the tensor")
                .raise();
        default:
            break;
    }
    rejected("type_error", fmt::format("'{}' is not iterable", kind_name(iterable.kind()))).raise();
}

}  // namespace accelopt::nki::interp
