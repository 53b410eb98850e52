#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "nki/builtins.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

constexpr std::array<std::string_view, 51> kNames = {
    "abs",     "all",    "any",      "bool",   "dict",    "divmod",  "enumerate", "filter", "float",
    "getattr", "hasattr", "int",     "isinstance", "len", "list",    "map",       "max",    "min",
    "pow",     "print",  "range",    "reversed", "round", "set",     "slice",     "sorted", "str",
    "sum",     "tuple",  "type",     "zip",    "__name__", "",       "open",      "eval",   "exec",
    "compile", "__import__", "globals", "locals", "vars", "input",   "id",        "dir",    "setattr",
    "delattr", "breakpoint", "exit", "quit",   "memoryview", "super"};

}  // namespace

int builtin_id(std::string_view name) {
    if (name.empty()) return -1;
    if (name == "__builtins__") return static_cast<int>(BuiltinId::kGlobals);
    for (std::size_t k = 0; k < kNames.size(); ++k)
        if (kNames[k] == name) return static_cast<int>(k);
    return -1;
}

std::string_view builtin_name(int id) { return kNames[static_cast<std::size_t>(id)]; }

namespace {

using Keywords = std::vector<std::pair<int, Value>>;

[[noreturn]] void bad_call(std::string_view name) {
    rejected("type_error", fmt::format("{}() cannot be called with these arguments", name)).raise();
}

void expect(std::string_view name, const std::vector<Value>& arguments, std::size_t low,
            std::size_t high) {
    if (arguments.size() >= low && arguments.size() <= high) return;
    rejected("type_error", fmt::format("{}() takes {} arguments, got {}", name,
                                       low == high ? fmt::format("{}", low)
                                                   : fmt::format("{} to {}", low, high),
                                       arguments.size()))
        .raise();
}

bool is_instance(const Value& value, const Value& type) {
    if (type.is(Kind::kTuple)) {
        const auto& items = type.as<Sequence>().items;
        return std::any_of(items.begin(), items.end(),
                           [&](const Value& item) { return is_instance(value, item); });
    }
    if (!type.is(Kind::kBuiltin)) return false;
    switch (static_cast<BuiltinId>(type.integer())) {
        case BuiltinId::kInt: return value.is(Kind::kInt) || value.is(Kind::kBool);
        case BuiltinId::kFloat: return value.is(Kind::kFloat);
        case BuiltinId::kBool: return value.is(Kind::kBool);
        case BuiltinId::kStr: return value.is(Kind::kString);
        case BuiltinId::kTuple: return value.is(Kind::kTuple);
        case BuiltinId::kList: return value.is(Kind::kList);
        case BuiltinId::kDict: return value.is(Kind::kDict);
        case BuiltinId::kSet: return value.is(Kind::kSet);
        case BuiltinId::kSlice: return value.is(Kind::kSlice);
        case BuiltinId::kRange: return value.is(Kind::kRange);
        default: return false;
    }
}

std::int64_t whole(double value) {
    if (!(std::fabs(value) < 9e18)) rejected("value_error", "a number beyond 64 bits").raise();
    return static_cast<std::int64_t>(value);
}

/// Converts to int or float; a tensor has no value at trace time.
Value to_number(Evaluator& host, bool to_int, const Value& value) {
    if (value.is(Kind::kTile) || value.is(Kind::kPending))
        rejected("trace_value_access",
                 fmt::format("{}() of a tensor: its value is not known at trace time",
                             to_int ? "int" : "float"))
            .raise();
    if (value.is_number())
        return to_int ? Value::integer(value.is_integer() ? value.integer() : whole(value.number()))
                      : Value::number(value.number());
    if (value.is(Kind::kString)) {
        const std::string& text = value.as<String>().text;
        char* end = nullptr;
        if (to_int) {
            errno = 0;
            const long long parsed = std::strtoll(text.c_str(), &end, 10);
            if (!text.empty() && *end == '\0' && errno == 0) return Value::integer(parsed);
        } else {
            const double parsed = std::strtod(text.c_str(), &end);
            if (!text.empty() && *end == '\0') return Value::number(parsed);
        }
    }
    rejected("value_error",
             fmt::format("cannot convert {} to {}", host.repr(value), to_int ? "int" : "float"))
        .raise();
}

Value extreme(Evaluator& host, bool largest, std::vector<Value>& arguments, const Value& key,
              const Value& otherwise) {
    const std::vector<Value> items =
        arguments.size() == 1 ? host.items_of(arguments[0]) : std::move(arguments);
    if (items.empty()) {
        if (!otherwise.is(Kind::kUnbound)) return otherwise;
        rejected("value_error", largest ? "max() of nothing" : "min() of nothing").raise();
    }
    const auto weigh = [&](const Value& item) {
        return key.is(Kind::kUnbound) || key.is(Kind::kNone) ? item : host.call(key, {item});
    };
    Value best = items[0];
    Value best_weight = weigh(best);
    for (std::size_t k = 1; k < items.size(); ++k) {
        const Value weight = weigh(items[k]);
        if (!host.truth(host.compare(largest ? Op::kGreater : Op::kLess, weight, best_weight)))
            continue;
        best = items[k];
        best_weight = weight;
    }
    return best;
}

Value absolute(Evaluator& host, const Value& value) {
    if (value.is_integer())
        return value.integer() < 0 ? host.unary(Op::kNegative, value) : host.unary(Op::kPositive, value);
    if (value.is(Kind::kFloat)) return Value::number(std::fabs(value.number()));
    if (value.is(Kind::kTile) || value.is(Kind::kPending))
        unsupported("python_feature", "abs() of a tile").remedy("use nl.abs").raise();
    bad_call("abs");
}

Value rounded(const std::vector<Value>& arguments) {
    if (!arguments[0].is_number()) bad_call("round");
    if (arguments[0].is_integer()) return arguments[0];
    const double value = arguments[0].number();
    if (arguments.size() == 1 || arguments[1].is(Kind::kNone))
        return Value::integer(whole(std::nearbyint(value)));
    if (!arguments[1].is_integer() || std::abs(arguments[1].integer()) > 300) bad_call("round");
    const double scale = std::pow(10.0, static_cast<double>(arguments[1].integer()));
    return Value::number(std::nearbyint(value * scale) / scale);
}

std::vector<Value> zip(Evaluator& host, const std::vector<Value>& arguments) {
    std::vector<std::vector<Value>> columns;
    std::size_t shortest = arguments.empty() ? 0 : SIZE_MAX;
    for (const Value& argument : arguments) {
        columns.push_back(host.items_of(argument));
        shortest = std::min(shortest, columns.back().size());
    }
    std::vector<Value> rows;
    for (std::size_t k = 0; k < shortest; ++k) {
        std::vector<Value> row;
        for (const std::vector<Value>& column : columns) row.push_back(column[k]);
        rows.push_back(host.tuple(std::move(row)));
    }
    return rows;
}

Value make_range(Evaluator& host, const std::vector<Value>& arguments) {
    const Ref<Range> range = host.heap().make<Range>();
    const bool two = arguments.size() > 1;
    range->start = two ? host.to_integer(arguments[0], "range()") : 0;
    range->stop = host.to_integer(arguments[two ? 1 : 0], "range()");
    if (arguments.size() > 2) range->step = host.to_integer(arguments[2], "range()");
    if (range->step == 0) rejected("value_error", "range() step must not be zero").raise();
    return Value::object(Kind::kRange, range);
}

Value length(Evaluator& host, const Value& value) {
    switch (value.kind()) {
        case Kind::kTuple:
        case Kind::kList:
            return Value::integer(static_cast<std::int64_t>(value.as<Sequence>().items.size()));
        case Kind::kDict:
        case Kind::kSet:
            return Value::integer(static_cast<std::int64_t>(value.as<Mapping>().entries.size()));
        case Kind::kString:
            return Value::integer(static_cast<std::int64_t>(value.as<String>().text.size()));
        case Kind::kRange: return Value::integer(value.as<Range>().count());
        case Kind::kTile:
        case Kind::kPending: return Value::integer(host.materialise(value)->shape()[0]);
        default: bad_call("len");
    }
}

void sort(Evaluator& host, std::vector<Value>& items, const Value& key, bool reverse) {
    std::vector<std::pair<Value, Value>> weighed;
    for (Value& item : items) {
        Value weight = key.is(Kind::kUnbound) || key.is(Kind::kNone) ? item : host.call(key, {item});
        weighed.emplace_back(std::move(weight), std::move(item));
    }
    // Merge by hand: a comparison may raise, which std::sort must not see half-way.
    for (std::size_t k = 1; k < weighed.size(); ++k) {
        std::pair<Value, Value> moved = std::move(weighed[k]);
        std::size_t at = k;
        while (at > 0) {
            host.tick();
            const bool before =
                reverse ? host.truth(host.compare(Op::kLess, weighed[at - 1].first, moved.first))
                        : host.truth(host.compare(Op::kLess, moved.first, weighed[at - 1].first));
            if (!before) break;
            weighed[at] = std::move(weighed[at - 1]);
            --at;
        }
        weighed[at] = std::move(moved);
    }
    items.clear();
    for (auto& [weight, item] : weighed) items.push_back(std::move(item));
}

}  // namespace

Value Evaluator::call_builtin(int id, std::vector<Value>& arguments, Keywords& keywords) {
    const auto builtin = static_cast<BuiltinId>(id);
    const std::string_view name = builtin_name(id);
    if (builtin >= BuiltinId::kForbidden)
        rejected("forbidden_api", fmt::format("a kernel cannot call {}()", name)).raise();
    Value key;
    Value otherwise;
    bool reverse = false;
    std::int64_t start = 0;
    for (const auto& [keyword, value] : keywords) {
        const std::string& text = this->name(keyword);
        if (text == "key") {
            key = value;
        } else if (text == "default") {
            otherwise = value;
        } else if (text == "reverse") {
            reverse = truth(value);
        } else if (text == "start") {
            start = to_integer(value, "start");
        } else if (builtin != BuiltinId::kPrint && builtin != BuiltinId::kDict &&
                   builtin != BuiltinId::kZip) {
            bad_call(name);
        }
    }
    switch (builtin) {
        case BuiltinId::kAbs: expect(name, arguments, 1, 1); return absolute(*this, arguments[0]);
        case BuiltinId::kAll:
        case BuiltinId::kAny: {
            expect(name, arguments, 1, 1);
            const bool any = builtin == BuiltinId::kAny;
            for (const Value& item : items_of(arguments[0]))
                if (truth(item) == any) return Value::boolean(any);
            return Value::boolean(!any);
        }
        case BuiltinId::kBool:
            expect(name, arguments, 0, 1);
            return Value::boolean(!arguments.empty() && truth(arguments[0]));
        case BuiltinId::kDict: {
            expect(name, arguments, 0, 1);
            const Ref<Mapping> mapping = heap_.make<Mapping>();
            mapping->module_level = !in_kernel_;
            if (!arguments.empty() && arguments[0].is(Kind::kDict)) {
                for (const auto& [k, v] : arguments[0].as<Mapping>().entries) set_entry(*mapping, k, v);
            } else if (!arguments.empty()) {
                for (const Value& pair : items_of(arguments[0])) {
                    const std::vector<Value> two = items_of(pair);
                    if (two.size() != 2) bad_call(name);
                    set_entry(*mapping, two[0], two[1]);
                }
            }
            for (auto& [keyword, value] : keywords)
                set_entry(*mapping, string(this->name(keyword)), kept(value));
            return Value::object(Kind::kDict, mapping);
        }
        case BuiltinId::kDivmod:
            expect(name, arguments, 2, 2);
            return tuple({binary(Op::kFloorDivide, arguments[0], arguments[1]),
                          binary(Op::kModulo, arguments[0], arguments[1])});
        case BuiltinId::kEnumerate: {
            expect(name, arguments, 1, 2);
            if (arguments.size() == 2) start = to_integer(arguments[1], "enumerate()");
            std::vector<Value> pairs;
            for (const Value& item : items_of(arguments[0]))
                pairs.push_back(tuple({Value::integer(start++), item}));
            return list(std::move(pairs));
        }
        case BuiltinId::kFilter:
        case BuiltinId::kMap: {
            expect(name, arguments, 2, builtin == BuiltinId::kMap ? 8 : 2);
            const Value function = arguments[0];
            std::vector<Value> results;
            const std::vector<Value> iterables(arguments.begin() + 1, arguments.end());
            for (const Value& row : zip(*this, iterables)) {
                std::vector<Value> items = row.as<Sequence>().items;
                const Value first = items[0];
                Value result = function.is(Kind::kNone) ? first : kept(call(function, std::move(items)));
                if (builtin == BuiltinId::kMap) {
                    results.push_back(std::move(result));
                } else if (truth(result)) {
                    results.push_back(first);
                }
            }
            return list(std::move(results));
        }
        case BuiltinId::kFloat:
        case BuiltinId::kInt: {
            expect(name, arguments, 0, 1);
            const bool to_int = builtin == BuiltinId::kInt;
            if (arguments.empty()) return to_int ? Value::integer(0) : Value::number(0);
            return to_number(*this, to_int, arguments[0]);
        }
        case BuiltinId::kGetattr:
        case BuiltinId::kHasattr:
            expect(name, arguments, 2, 3);
            if (!arguments[1].is(Kind::kString)) bad_call(name);
            if (builtin == BuiltinId::kHasattr)
                unsupported("python_feature", "hasattr() is not supported").raise();
            return attribute(arguments[0], code_->names.intern(arguments[1].as<String>().text));
        case BuiltinId::kIsinstance:
            expect(name, arguments, 2, 2);
            return Value::boolean(is_instance(arguments[0], arguments[1]));
        case BuiltinId::kLen: expect(name, arguments, 1, 1); return length(*this, arguments[0]);
        case BuiltinId::kList:
        case BuiltinId::kTuple: {
            expect(name, arguments, 0, 1);
            std::vector<Value> items;
            if (!arguments.empty()) items = items_of(arguments[0]);
            return builtin == BuiltinId::kList ? list(std::move(items)) : tuple(std::move(items));
        }
        case BuiltinId::kMax:
        case BuiltinId::kMin:
            if (arguments.empty()) bad_call(name);
            return extreme(*this, builtin == BuiltinId::kMax, arguments, key, otherwise);
        case BuiltinId::kPow:
            expect(name, arguments, 2, 2);
            return binary(Op::kPower, arguments[0], arguments[1]);
        case BuiltinId::kPrint: return Value::none();
        case BuiltinId::kRange: expect(name, arguments, 1, 3); return make_range(*this, arguments);
        case BuiltinId::kReversed: {
            expect(name, arguments, 1, 1);
            std::vector<Value> items = items_of(arguments[0]);
            std::reverse(items.begin(), items.end());
            return list(std::move(items));
        }
        case BuiltinId::kRound: expect(name, arguments, 1, 2); return rounded(arguments);
        case BuiltinId::kSet: {
            expect(name, arguments, 0, 1);
            const Ref<Mapping> mapping = heap_.make<Mapping>();
            mapping->module_level = !in_kernel_;
            if (!arguments.empty())
                for (const Value& item : items_of(arguments[0])) set_entry(*mapping, item, Value::none());
            return Value::object(Kind::kSet, mapping);
        }
        case BuiltinId::kSlice: {
            expect(name, arguments, 1, 3);
            const Ref<Slice> slice = heap_.make<Slice>();
            const bool two = arguments.size() > 1;
            slice->start = two ? arguments[0] : Value::none();
            slice->stop = arguments[two ? 1 : 0];
            slice->step = arguments.size() > 2 ? arguments[2] : Value::none();
            return Value::object(Kind::kSlice, slice);
        }
        case BuiltinId::kSorted: {
            expect(name, arguments, 1, 1);
            std::vector<Value> items = items_of(arguments[0]);
            sort(*this, items, key, reverse);
            return list(std::move(items));
        }
        case BuiltinId::kStr:
            expect(name, arguments, 0, 1);
            return string(arguments.empty() ? std::string() : str(arguments[0]));
        case BuiltinId::kSum: {
            expect(name, arguments, 1, 2);
            Value total = arguments.size() == 2 ? arguments[1] : Value::integer(start);
            for (const Value& item : items_of(arguments[0])) total = binary(Op::kAdd, total, item);
            return total;
        }
        case BuiltinId::kZip: return list(zip(*this, arguments));
        case BuiltinId::kType:
        case BuiltinId::kName: break;
        default: break;
    }
    unsupported("python_feature", fmt::format("{}() is not supported", name)).raise();
}

}  // namespace accelopt::nki::interp
