#include <fmt/format.h>

#include <algorithm>

#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

using Keywords = std::vector<std::pair<int, Value>>;

void expect(const std::string& name, const std::vector<Value>& arguments, std::size_t low,
            std::size_t high) {
    if (arguments.size() >= low && arguments.size() <= high) return;
    rejected("type_error",
             fmt::format("{}() cannot be called with {} arguments", name, arguments.size()))
        .raise();
}

}  // namespace

Value Evaluator::call_method(Method& method, std::vector<Value>& arguments, Keywords& keywords) {
    const std::string& name = this->name(method.name);
    const Value& self = method.self;
    if (self.is(Kind::kTile) || self.is(Kind::kPending))
        return tile_method(name, self, arguments, keywords);
    refuse_replay();
    if (self.is(Kind::kString) && name == "format")
        return format_string(self.as<String>().text, arguments, keywords);
    for (auto& [keyword, value] : keywords) {
        if (this->name(keyword) != "default")
            unsupported("python_feature", fmt::format("keyword arguments of {}()", name)).raise();
        arguments.push_back(value);
    }
    switch (self.kind()) {
        case Kind::kDType:
            expect(name, arguments, 1, 1);
            return convert(static_cast<DType>(self.integer()), arguments[0]);
        case Kind::kString:
            return string_method(name, self.as<String>().text, arguments);
        case Kind::kArray:
            return array_method(name, self.as<HostArray>(), arguments);
        default:
            break;
    }
    for (Value& argument : arguments) argument = kept(std::move(argument));
    if (self.is(Kind::kDict) || self.is(Kind::kSet)) return mapping_method(name, self, arguments);
    return sequence_method(name, self, arguments);
}

Value Evaluator::array_method(const std::string& name, const HostArray& self,
                              std::vector<Value>& arguments) {
    if (name != "astype" && name != "reshape") {
        expect(name, arguments, 0, 0);
        return array_reduction(name, self);
    }
    expect(name, arguments, 1, 8);
    const Ref<HostArray> made = heap_.make<HostArray>();
    heap_.grow(*made, static_cast<std::int64_t>(self.values.size() * 8));
    made->shape = self.shape;
    made->dtype = self.dtype;
    made->values = self.values;
    if (name == "astype") {
        if (!arguments[0].is(Kind::kDType)) rejected("type_error", "not a dtype").raise();
        made->dtype = static_cast<DType>(arguments[0].integer());
        return Value::object(Kind::kArray, made);
    }
    made->shape.clear();
    std::int64_t total = 1;
    const std::vector<Value> dims =
        arguments.size() == 1 && !arguments[0].is_integer() ? items_of(arguments[0]) : arguments;
    for (const Value& n : dims) {
        made->shape.push_back(to_integer(n, "a shape"));
        total = checked_multiply(total, made->shape.back());
    }
    if (total != static_cast<std::int64_t>(made->values.size()) || made->shape.empty())
        rejected("value_error", "an array cannot be reshaped to another size").raise();
    return Value::object(Kind::kArray, made);
}

Value Evaluator::tile_method(const std::string& name, const Value& self,
                             std::vector<Value>& arguments, Keywords& keywords) {
    const Ref<Tile> tile = materialise(self);
    if (name == "reshape" || name == "broadcast_to" || name == "assert_shape") {
        for (auto& [keyword, value] : keywords) arguments.push_back(value);
        std::vector<std::int64_t> shape;
        const std::vector<Value> dims = arguments.size() == 1 && !arguments[0].is_integer()
                                            ? items_of(arguments[0])
                                            : arguments;
        std::int64_t known = 1;
        int open = -1;
        for (const Value& n : dims) {
            shape.push_back(to_integer(n, "a shape"));
            if (shape.back() == -1 && open < 0 && name == "reshape") {
                open = static_cast<int>(shape.size()) - 1;
            } else {
                known = checked_multiply(known, shape.back());
            }
        }
        if (open >= 0 && known > 0) shape[static_cast<std::size_t>(open)] = tile->count() / known;
        if (name == "reshape") return Value::tile(interp::reshape(heap_, *tile, shape));
        if (name == "assert_shape") {
            if (shape != tile->shape())
                rejected(
                    "assertion_failed",
                    fmt::format("shape {} is not {}", shape_text(tile->shape()), shape_text(shape)))
                    .raise();
            return self;
        }
        if (tile->buffer == Buffer::kHbm)
            rejected("unsupported_memory", "broadcast_to needs a tile in sbuf or psum")
                .shape(tile->shape())
                .remedy("load it first")
                .raise();
        return Value::tile(interp::broadcast_to(heap_, tile, shape));
    }
    std::vector<Value> all{self};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const char* api = name == "astype"        ? "nl.static_cast"
                      : name == "expand_dims" ? "nl.expand_dims"
                      : name == "transpose"   ? "nl.transpose"
                                              : nullptr;
    if (api == nullptr)
        unsupported("unknown_api", fmt::format("tile.{}() is not supported", name)).raise();
    return dispatch(Value::token(Kind::kApi, table_.find(api)), all, keywords);
}

Value Evaluator::string_method(const std::string& name, const std::string& text,
                               std::vector<Value>& arguments) {
    const auto argument = [&](std::size_t k) -> const std::string& {
        if (k >= arguments.size() || !arguments[k].is(Kind::kString))
            rejected("type_error", fmt::format("str.{}() needs a string", name)).raise();
        return arguments[k].as<String>().text;
    };
    if (name == "lower" || name == "upper") {
        std::string changed = text;
        for (char& c : changed)
            c = static_cast<char>(name == "lower" ? std::tolower(static_cast<unsigned char>(c))
                                                  : std::toupper(static_cast<unsigned char>(c)));
        return string(std::move(changed));
    }
    if (name == "startswith") return Value::boolean(text.starts_with(argument(0)));
    if (name == "endswith") return Value::boolean(text.ends_with(argument(0)));
    if (name == "join" && arguments.size() == 1) {
        std::string joined;
        bool first = true;
        for (const Value& item : items_of(arguments[0])) {
            if (!item.is(Kind::kString)) rejected("type_error", "str.join() needs strings").raise();
            if (!first) joined += text;
            first = false;
            joined += item.as<String>().text;
            if (joined.size() > 4'000'000) exhausted("memory", "a string is too long").raise();
        }
        tick(static_cast<std::int64_t>(joined.size() / 16));
        return string(std::move(joined));
    }
    if (name == "replace" && arguments.size() == 2) {
        const std::string& from = argument(0);
        const std::string& to = argument(1);
        if (from.empty()) rejected("value_error", "str.replace() of an empty string").raise();
        std::string out;
        std::size_t at = 0;
        for (std::size_t hit = text.find(from); hit != std::string::npos;
             hit = text.find(from, at)) {
            out += text.substr(at, hit - at) + to;
            at = hit + from.size();
            if (out.size() > 4'000'000) exhausted("memory", "a string is too long").raise();
        }
        return string(out + text.substr(at));
    }
    if (name == "split") {
        std::vector<Value> parts;
        const std::string by = arguments.empty() ? " " : argument(0);
        if (by.empty()) rejected("value_error", "str.split() by an empty string").raise();
        std::size_t at = 0;
        while (true) {
            const std::size_t hit = std::min(text.find(by, at), text.size());
            if (hit > at || !arguments.empty()) parts.push_back(string(text.substr(at, hit - at)));
            if (hit == text.size()) break;
            at = hit + by.size();
        }
        return list(std::move(parts));
    }
    if (name == "strip" && arguments.empty()) {
        const std::size_t from = text.find_first_not_of(" \t\n\r");
        if (from == std::string::npos) return string({});
        return string(text.substr(from, text.find_last_not_of(" \t\n\r") - from + 1));
    }
    unsupported("python_feature", fmt::format("str.{}() is not supported", name)).raise();
}

Value Evaluator::mapping_method(const std::string& name, const Value& self,
                                std::vector<Value>& arguments) {
    Mapping& mapping = self.as<Mapping>();
    if (name == "items" || name == "keys" || name == "values") {
        expect(name, arguments, 0, 0);
        std::vector<Value> items;
        for (const auto& [key, value] : mapping.entries)
            items.push_back(name == "items" ? tuple({key, value}) : name == "keys" ? key : value);
        return list(std::move(items));
    }
    if (name == "copy") {
        const Ref<Mapping> made = heap_.make<Mapping>();
        made->module_level = !in_kernel_;
        for (const auto& [key, value] : mapping.entries) set_entry(*made, key, value);
        return Value::object(self.kind(), made);
    }
    if (name != "get") check_mutable(mapping);
    if (name == "add") {
        expect(name, arguments, 1, 1);
        set_entry(mapping, arguments[0], Value::none());
        return Value::none();
    }
    if (name == "update") {
        expect(name, arguments, 1, 1);
        if (arguments[0].is(Kind::kDict) && self.is(Kind::kDict)) {
            const auto entries = arguments[0].as<Mapping>().entries;
            for (const auto& [key, value] : entries) set_entry(mapping, key, value);
        } else {
            for (const Value& item : items_of(arguments[0]))
                set_entry(mapping, item, Value::none());
        }
        return Value::none();
    }
    // get, pop and setdefault look a key up.
    expect(name, arguments, 1, 2);
    for (std::size_t k = 0; k < mapping.entries.size(); ++k) {
        if (!equal(mapping.entries[k].first, arguments[0])) continue;
        const Value found = mapping.entries[k].second;
        if (name == "pop")
            mapping.entries.erase(mapping.entries.begin() + static_cast<std::ptrdiff_t>(k));
        return found;
    }
    const bool fallback = arguments.size() == 2;
    if (name == "setdefault")
        set_entry(mapping, arguments[0], fallback ? arguments[1] : Value::none());
    if (fallback) return arguments[1];
    if (name != "pop") return Value::none();
    rejected("value_error", fmt::format("key {} is not in the dict", repr(arguments[0]))).raise();
}

Value Evaluator::sequence_method(const std::string& name, const Value& self,
                                 std::vector<Value>& arguments) {
    Sequence& sequence = self.as<Sequence>();
    const auto size = static_cast<std::int64_t>(sequence.items.size());
    const auto position = [&](const Value& value) {
        const std::int64_t k = to_integer(value, "a list index");
        return k < 0 ? k + size : k;
    };
    if (name == "index" || name == "count") {
        expect(name, arguments, 1, 1);
        std::int64_t count = 0;
        for (std::int64_t k = 0; k < size; ++k) {
            if (!equal(sequence.items[static_cast<std::size_t>(k)], arguments[0])) continue;
            if (name == "index") return Value::integer(k);
            ++count;
        }
        if (name == "count") return Value::integer(count);
        rejected("value_error", fmt::format("{} is not in the list", repr(arguments[0]))).raise();
    }
    if (name == "copy") return list(items_of(self));
    check_mutable(sequence);
    if (name != "append") tick(1 + size / 16);
    if (name == "append") {
        expect(name, arguments, 1, 1);
        append(sequence, arguments[0]);
    } else if (name == "extend") {
        expect(name, arguments, 1, 1);
        for (Value& item : items_of(arguments[0])) append(sequence, std::move(item));
    } else if (name == "insert") {
        expect(name, arguments, 2, 2);
        heap_.grow(sequence, sizeof(Value));
        const std::int64_t k = std::clamp<std::int64_t>(position(arguments[0]), 0, size);
        sequence.items.insert(sequence.items.begin() + k, arguments[1]);
    } else if (name == "pop") {
        expect(name, arguments, 0, 1);
        const std::int64_t k = arguments.empty() ? size - 1 : position(arguments[0]);
        if (k < 0 || k >= size) rejected("value_error", "pop index out of range").raise();
        const Value found = sequence.items[static_cast<std::size_t>(k)];
        sequence.items.erase(sequence.items.begin() + k);
        return found;
    } else if (name == "reverse") {
        std::reverse(sequence.items.begin(), sequence.items.end());
    } else if (name == "clear") {
        sequence.items.clear();
    }
    return Value::none();
}

}  // namespace accelopt::nki::interp
