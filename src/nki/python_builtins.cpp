#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "nki/builtins.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

using Keywords = std::vector<std::pair<int, Value>>;

/// The arguments of a call, with the keywords that several builtins share.
struct Call {
    std::string_view name;
    std::vector<Value>& arguments;
    Keywords& keywords;
    Value key;
    Value otherwise;
    bool reverse = false;
    std::int64_t start = 0;

    const Value& operator[](std::size_t k) const { return arguments[k]; }
    std::size_t size() const { return arguments.size(); }
};

[[noreturn]] void bad_call(std::string_view name) {
    rejected("type_error", fmt::format("{}() cannot be called with these arguments", name)).raise();
}

bool given(const Value& value) { return !value.is(Kind::kUnbound) && !value.is(Kind::kNone); }

std::int64_t whole(double value) {
    if (!(std::fabs(value) < 9e18)) rejected("value_error", "a number beyond 64 bits").raise();
    return static_cast<std::int64_t>(value);
}

Value abs_(Evaluator& host, Call& call) {
    const Value& value = call[0];
    if (value.is_integer())
        return host.unary(value.integer() < 0 ? Op::kNegative : Op::kPositive, value);
    if (value.is(Kind::kFloat)) return Value::number(std::fabs(value.number()));
    if (value.is(Kind::kTile) || value.is(Kind::kPending))
        unsupported("python_feature", "abs() of a tile").remedy("use nl.abs").raise();
    bad_call(call.name);
}

Value any_or_all(Evaluator& host, Call& call) {
    const bool any = call.name == "any";
    for (const Value& item : host.items_of(call[0]))
        if (host.truth(item) == any) return Value::boolean(any);
    return Value::boolean(!any);
}

Value bool_(Evaluator& host, Call& call) {
    return Value::boolean(call.size() > 0 && host.truth(call[0]));
}

Value dict_(Evaluator& host, Call& call) {
    const Ref<Mapping> mapping = host.heap().make<Mapping>();
    mapping->module_level = !host.in_kernel();
    if (call.size() > 0 && call[0].is(Kind::kDict)) {
        for (const auto& [key, value] : call[0].as<Mapping>().entries)
            host.set_entry(*mapping, key, value);
    } else if (call.size() > 0) {
        for (const Value& pair : host.items_of(call[0])) {
            const std::vector<Value> two = host.items_of(pair);
            if (two.size() != 2) bad_call(call.name);
            host.set_entry(*mapping, two[0], two[1]);
        }
    }
    for (const auto& [keyword, value] : call.keywords)
        host.set_entry(*mapping, host.string(host.name(keyword)), host.kept(value));
    return Value::object(Kind::kDict, mapping);
}

Value divmod_(Evaluator& host, Call& call) {
    return host.tuple({host.binary(Op::kFloorDivide, call[0], call[1]),
                       host.binary(Op::kModulo, call[0], call[1])});
}

Value enumerate_(Evaluator& host, Call& call) {
    std::int64_t index = call.size() == 2 ? host.to_integer(call[1], "enumerate()") : call.start;
    std::vector<Value> pairs;
    for (const Value& item : host.items_of(call[0])) {
        pairs.push_back(host.tuple({Value::integer(index), item}));
        index = checked_add(index, 1);
    }
    return host.list(std::move(pairs));
}

std::vector<Value> zipped(Evaluator& host, const std::vector<Value>& iterables) {
    std::vector<std::vector<Value>> columns;
    std::size_t shortest = iterables.empty() ? 0 : SIZE_MAX;
    for (const Value& iterable : iterables) {
        columns.push_back(host.items_of(iterable));
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

Value zip_(Evaluator& host, Call& call) { return host.list(zipped(host, call.arguments)); }

Value map_or_filter(Evaluator& host, Call& call) {
    const bool map = call.name == "map";
    const Value function = call[0];
    std::vector<Value> results;
    const std::vector<Value> iterables(call.arguments.begin() + 1, call.arguments.end());
    for (const Value& row : zipped(host, iterables)) {
        std::vector<Value> items = row.as<Sequence>().items;
        const Value first = items[0];
        Value result = given(function) ? host.kept(host.call(function, std::move(items))) : first;
        if (map) {
            results.push_back(std::move(result));
        } else if (host.truth(result)) {
            results.push_back(first);
        }
    }
    return host.list(std::move(results));
}

/// int() and float(); a tensor has no value at trace time.
Value int_or_float(Evaluator& host, Call& call) {
    const bool to_int = call.name == "int";
    if (call.size() == 0) return to_int ? Value::integer(0) : Value::number(0);
    const Value& value = call[0];
    if (value.is(Kind::kTile) || value.is(Kind::kPending))
        rejected("trace_value_access",
                 fmt::format("{}() of a tensor: its value is not known at trace time", call.name))
            .raise();
    if (value.is_number())
        return to_int ? Value::integer(value.is_integer() ? value.integer() : whole(value.number()))
                      : Value::number(value.number());
    if (value.is(Kind::kString)) {
        const std::string& text = value.as<String>().text;
        char* end = nullptr;
        errno = 0;
        if (to_int) {
            const long long parsed = std::strtoll(text.c_str(), &end, 10);
            if (!text.empty() && *end == '\0' && errno == 0) return Value::integer(parsed);
        } else {
            const double parsed = std::strtod(text.c_str(), &end);
            if (!text.empty() && *end == '\0') return Value::number(parsed);
        }
    }
    rejected("value_error", fmt::format("cannot convert {} to {}", host.repr(value), call.name))
        .raise();
}

Value getattr_(Evaluator& host, Call& call) {
    if (!call[1].is(Kind::kString)) bad_call(call.name);
    return host.attribute(call[0], host.intern(call[1].as<String>().text));
}

bool is_instance(const Value& value, const Value& type) {
    if (type.is(Kind::kTuple)) {
        const auto& items = type.as<Sequence>().items;
        return std::any_of(items.begin(), items.end(),
                           [&](const Value& item) { return is_instance(value, item); });
    }
    if (!type.is(Kind::kBuiltin)) return false;
    const std::string_view name = builtin_name(static_cast<int>(type.integer()));
    if (name == "int") return value.is_integer();
    for (const Kind kind : {Kind::kFloat, Kind::kBool, Kind::kString, Kind::kTuple, Kind::kList,
                            Kind::kDict, Kind::kSet, Kind::kSlice, Kind::kRange})
        if (name == kind_name(kind)) return value.is(kind);
    return false;
}

Value isinstance_(Evaluator&, Call& call) { return Value::boolean(is_instance(call[0], call[1])); }

Value len_(Evaluator& host, Call& call) {
    const Value& value = call[0];
    switch (value.kind()) {
        case Kind::kTuple:
        case Kind::kList:
            return Value::integer(static_cast<std::int64_t>(value.as<Sequence>().items.size()));
        case Kind::kDict:
        case Kind::kSet:
            return Value::integer(static_cast<std::int64_t>(value.as<Mapping>().entries.size()));
        case Kind::kString:
            return Value::integer(static_cast<std::int64_t>(value.as<String>().text.size()));
        case Kind::kRange:
            return Value::integer(value.as<Range>().count());
        case Kind::kArray:
            if (value.as<HostArray>().shape.empty()) bad_call(call.name);
            return Value::integer(value.as<HostArray>().shape[0]);
        case Kind::kTile:
        case Kind::kPending:
            return Value::integer(host.materialise(value)->shape()[0]);
        default:
            bad_call(call.name);
    }
}

Value list_or_tuple(Evaluator& host, Call& call) {
    std::vector<Value> items;
    if (call.size() > 0) items = host.items_of(call[0]);
    return call.name == "list" ? host.list(std::move(items)) : host.tuple(std::move(items));
}

Value max_or_min(Evaluator& host, Call& call) {
    const Op better = call.name == "max" ? Op::kGreater : Op::kLess;
    const std::vector<Value> items = call.size() == 1 ? host.items_of(call[0]) : call.arguments;
    if (items.empty()) {
        if (!call.otherwise.is(Kind::kUnbound)) return call.otherwise;
        rejected("value_error", fmt::format("{}() of nothing", call.name)).raise();
    }
    const auto weigh = [&](const Value& item) {
        return given(call.key) ? host.call(call.key, {item}) : item;
    };
    Value best = items[0];
    Value best_weight = weigh(best);
    for (std::size_t k = 1; k < items.size(); ++k) {
        const Value weight = weigh(items[k]);
        if (!host.truth(host.compare(better, weight, best_weight))) continue;
        best = items[k];
        best_weight = weight;
    }
    return best;
}

Value pow_(Evaluator& host, Call& call) { return host.binary(Op::kPower, call[0], call[1]); }

Value print_(Evaluator&, Call&) { return Value::none(); }

Value range_(Evaluator& host, Call& call) {
    const Ref<Range> range = host.heap().make<Range>();
    const bool two = call.size() > 1;
    range->start = two ? host.to_integer(call[0], "range()") : 0;
    range->stop = host.to_integer(call[two ? 1 : 0], "range()");
    if (call.size() > 2) range->step = host.to_integer(call[2], "range()");
    if (range->step == 0) rejected("value_error", "range() step must not be zero").raise();
    return Value::object(Kind::kRange, range);
}

Value reversed_(Evaluator& host, Call& call) {
    std::vector<Value> items = host.items_of(call[0]);
    std::reverse(items.begin(), items.end());
    return host.list(std::move(items));
}

Value round_(Evaluator&, Call& call) {
    if (!call[0].is_number()) bad_call(call.name);
    if (call[0].is_integer()) return call[0];
    const double value = call[0].number();
    if (call.size() == 1 || call[1].is(Kind::kNone))
        return Value::integer(whole(std::nearbyint(value)));
    if (!call[1].is_integer() || call[1].integer() < -300 || call[1].integer() > 300)
        bad_call(call.name);
    const double scale = std::pow(10.0, static_cast<double>(call[1].integer()));
    return Value::number(std::nearbyint(value * scale) / scale);
}

Value set_(Evaluator& host, Call& call) {
    const Ref<Mapping> mapping = host.heap().make<Mapping>();
    mapping->module_level = !host.in_kernel();
    if (call.size() > 0)
        for (const Value& item : host.items_of(call[0]))
            host.set_entry(*mapping, item, Value::none());
    return Value::object(Kind::kSet, mapping);
}

Value slice_(Evaluator& host, Call& call) {
    const Ref<Slice> slice = host.heap().make<Slice>();
    const bool two = call.size() > 1;
    slice->start = two ? call[0] : Value::none();
    slice->stop = call[two ? 1 : 0];
    slice->step = call.size() > 2 ? call[2] : Value::none();
    return Value::object(Kind::kSlice, slice);
}

Value sorted_(Evaluator& host, Call& call) {
    std::vector<std::pair<Value, Value>> weighed;
    for (const Value& item : host.items_of(call[0]))
        weighed.emplace_back(given(call.key) ? host.call(call.key, {item}) : item, item);
    // By insertion: stable, and sound for comparisons that are no order (NaN) or that raise.
    for (std::size_t k = 1; k < weighed.size(); ++k) {
        for (std::size_t at = k; at > 0; --at) {
            host.tick();
            const Value& left = weighed[at - 1].first;
            const Value& right = weighed[at].first;
            const Value before = call.reverse ? host.compare(Op::kLess, left, right)
                                              : host.compare(Op::kLess, right, left);
            if (!host.truth(before)) break;
            std::swap(weighed[at - 1], weighed[at]);
        }
    }
    std::vector<Value> items;
    for (auto& [weight, item] : weighed) items.push_back(std::move(item));
    return host.list(std::move(items));
}

Value str_(Evaluator& host, Call& call) {
    return host.string(call.size() == 0 ? std::string() : host.str(call[0]));
}

Value sum_(Evaluator& host, Call& call) {
    Value total = call.size() == 2 ? call[1] : Value::integer(call.start);
    for (const Value& item : host.items_of(call[0])) total = host.binary(Op::kAdd, total, item);
    return total;
}

Value forbidden(Evaluator&, Call& call) {
    rejected("forbidden_api", fmt::format("a kernel cannot call {}()", call.name)).raise();
}

Value not_supported(Evaluator&, Call& call) {
    unsupported("python_feature", fmt::format("{}() is not supported", call.name)).raise();
}

struct Builtin {
    std::string_view name;
    std::size_t least;
    std::size_t most;
    Value (*handler)(Evaluator&, Call&);
};
constexpr std::size_t kAny = 1'000'000'000;

constexpr Builtin kBuiltins[] = {
    {"abs", 1, 1, abs_},
    {"all", 1, 1, any_or_all},
    {"any", 1, 1, any_or_all},
    {"bool", 0, 1, bool_},
    {"dict", 0, 1, dict_},
    {"divmod", 2, 2, divmod_},
    {"enumerate", 1, 2, enumerate_},
    {"filter", 2, 2, map_or_filter},
    {"float", 0, 1, int_or_float},
    {"getattr", 2, 3, getattr_},
    {"int", 0, 1, int_or_float},
    {"isinstance", 2, 2, isinstance_},
    {"len", 1, 1, len_},
    {"list", 0, 1, list_or_tuple},
    {"map", 2, 8, map_or_filter},
    {"max", 1, kAny, max_or_min},
    {"min", 1, kAny, max_or_min},
    {"pow", 2, 2, pow_},
    {"print", 0, kAny, print_},
    {"range", 1, 3, range_},
    {"reversed", 1, 1, reversed_},
    {"round", 1, 2, round_},
    {"set", 0, 1, set_},
    {"slice", 1, 3, slice_},
    {"sorted", 1, 1, sorted_},
    {"str", 0, 1, str_},
    {"sum", 1, 2, sum_},
    {"tuple", 0, 1, list_or_tuple},
    {"zip", 0, 16, zip_},
    {"hasattr", 0, kAny, not_supported},
    {"iter", 0, kAny, not_supported},
    {"next", 0, kAny, not_supported},
    {"repr", 0, kAny, not_supported},
    {"type", 0, kAny, not_supported},
    {"__name__", 0, kAny, not_supported},
    {"__builtins__", 0, kAny, forbidden},
    {"__import__", 0, kAny, forbidden},
    {"breakpoint", 0, kAny, forbidden},
    {"compile", 0, kAny, forbidden},
    {"delattr", 0, kAny, forbidden},
    {"dir", 0, kAny, forbidden},
    {"eval", 0, kAny, forbidden},
    {"exec", 0, kAny, forbidden},
    {"exit", 0, kAny, forbidden},
    {"globals", 0, kAny, forbidden},
    {"id", 0, kAny, forbidden},
    {"input", 0, kAny, forbidden},
    {"locals", 0, kAny, forbidden},
    {"memoryview", 0, kAny, forbidden},
    {"open", 0, kAny, forbidden},
    {"quit", 0, kAny, forbidden},
    {"setattr", 0, kAny, forbidden},
    {"super", 0, kAny, forbidden},
    {"vars", 0, kAny, forbidden},
};

}  // namespace

int builtin_id(std::string_view name) {
    for (std::size_t k = 0; k < std::size(kBuiltins); ++k)
        if (kBuiltins[k].name == name) return static_cast<int>(k);
    return -1;
}

std::string_view builtin_name(int id) { return kBuiltins[id].name; }

bool is_forbidden_builtin(int id) { return kBuiltins[id].handler == forbidden; }

Value Evaluator::call_builtin(int id, std::vector<Value>& arguments, Keywords& keywords) {
    const Builtin& builtin = kBuiltins[id];
    Call call{builtin.name, arguments, keywords, {}, {}, false, 0};
    if (builtin.handler == forbidden) forbidden(*this, call);
    if (arguments.size() < builtin.least || arguments.size() > builtin.most)
        rejected("type_error", fmt::format("{}() cannot be called with {} arguments", builtin.name,
                                           arguments.size()))
            .raise();
    const bool any_keyword = builtin.handler == print_ || builtin.handler == dict_;
    for (const auto& [keyword, value] : keywords) {
        const std::string& text = this->name(keyword);
        if (any_keyword) continue;
        if (text == "key") {
            call.key = value;
        } else if (text == "default") {
            call.otherwise = value;
        } else if (text == "reverse") {
            call.reverse = truth(value);
        } else if (text == "start") {
            call.start = to_integer(value, "start");
        } else {
            bad_call(builtin.name);
        }
    }
    return builtin.handler(*this, call);
}

}  // namespace accelopt::nki::interp
