#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/text.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

using Keywords = std::vector<std::pair<int, Value>>;

[[noreturn]] void no_attribute(const Value& base, const std::string& name) {
    rejected("type_error", fmt::format("'{}' has no attribute '{}'", kind_name(base.kind()), name))
        .raise();
}

[[noreturn]] void unknown_name(ModuleId module, const std::string& name) {
    const std::string near = nearest_word(name, module_names(module));
    const std::string_view path = module_path(module);
    unsupported("unknown_api",
                fmt::format("{} has no '{}'{}", path, name,
                            near.empty() ? "" : fmt::format(", did you mean '{}'?", near)))
        .remedy("use the functions that the NKI documentation lists")
        .raise();
}

bool is_method(Kind kind, const std::string& name) {
    const auto among = [&](std::initializer_list<const char*> names) {
        return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
    };
    switch (kind) {
        case Kind::kList:
            return among({"append", "extend", "insert", "pop", "index", "count", "reverse", "copy",
                          "clear"});
        case Kind::kTuple: return among({"index", "count"});
        case Kind::kDict:
            return among({"get", "items", "keys", "values", "update", "pop", "setdefault", "copy"});
        case Kind::kSet: return among({"add", "update", "copy"});
        case Kind::kString:
            return among({"join", "lower", "upper", "startswith", "endswith", "replace", "split",
                          "strip", "format"});
        case Kind::kTile:
        case Kind::kPending:
            return among({"reshape", "broadcast_to", "astype", "expand_dims", "view", "transpose",
                          "assert_shape"});
        case Kind::kArray: return among({"reshape", "astype"});
        case Kind::kDType: return name == "type";
        default: return false;
    }
}

int grid_axis(const std::string& name) {
    // The axes of nl.mgrid by name (NKI documentation, nki.language.mgrid).
    static constexpr const char* kAxes[] = {"p", "x", "y", "z", "w"};
    for (int k = 0; k < 5; ++k)
        if (name == kAxes[k]) return k;
    return -1;
}

}  // namespace

Value Evaluator::attribute(const Value& base, int name_id) {
    const std::string& name = this->name(name_id);
    if (name.starts_with("__"))
        rejected("forbidden_api", fmt::format("a kernel cannot access '{}'", name)).raise();
    switch (base.kind()) {
        case Kind::kModule: {
            const auto module = static_cast<ModuleId>(base.integer());
            if (module == ModuleId::kCompiler)
                unsupported("unknown_api", fmt::format("nki.compiler.{} is not supported", name))
                    .raise();
            const std::optional<Value> value = module_attribute(module, name);
            if (!value) unknown_name(module, name);
            return *value;
        }
        case Kind::kPending:
        case Kind::kTile: {
            const bool shapely = name == "shape" || name == "dtype" || name == "ndim";
            if (shapely && base.is(Kind::kPending) && !base.as<Pending>().done) {
                const OpRequest& request = base.as<Pending>().request;
                if (name == "shape") return shape_tuple(request.shape);
                if (name == "dtype")
                    return Value::token(Kind::kDType, static_cast<int>(request.dtype));
                return Value::integer(static_cast<std::int64_t>(request.shape.size()));
            }
            const Ref<Tile> tile = materialise(base);
            if (name == "shape") return shape_tuple(tile->shape());
            if (name == "dtype") return Value::token(Kind::kDType, static_cast<int>(tile->dtype));
            if (name == "ndim") return Value::integer(tile->rank);
            break;
        }
        case Kind::kArray:
            if (name == "shape") return shape_tuple(base.as<HostArray>().shape);
            if (name == "dtype")
                return Value::token(Kind::kDType, static_cast<int>(base.as<HostArray>().dtype));
            break;
        case Kind::kAffine:
            if (name == "shape") return shape_tuple(base.as<Affine>().expr.shape());
            break;
        case Kind::kTuple:
            if (base.as<Sequence>().grid) {
                const int axis = grid_axis(name);
                const auto& items = base.as<Sequence>().items;
                if (axis >= 0 && axis < static_cast<int>(items.size())) return items[axis];
            }
            break;
        case Kind::kSlice:
            if (name == "start") return base.as<Slice>().start;
            if (name == "stop") return base.as<Slice>().stop;
            if (name == "step") return base.as<Slice>().step;
            break;
        case Kind::kDType:
            if (name == "itemsize")
                return Value::integer(size_of(static_cast<DType>(base.integer())));
            if (name == "name")
                return string(std::string(to_string(static_cast<DType>(base.integer()))));
            break;
        case Kind::kToken:
            if (base.integer() == static_cast<int>(TokenId::kFinfoValue)) {
                if (name == "max") return Value::number(std::numeric_limits<float>::max());
                if (name == "min") return Value::number(-std::numeric_limits<float>::max());
                if (name == "eps") return Value::number(std::numeric_limits<float>::epsilon());
            }
            break;
        case Kind::kOpaque: return base;
        default: break;
    }
    if (!is_method(base.kind(), name)) no_attribute(base, name);
    const Ref<Method> method = heap_.make<Method>();
    method->self = base;
    method->name = name_id;
    return Value::object(Kind::kMethod, method);
}

Value Evaluator::call_method(Method& method, std::vector<Value>& arguments, Keywords& keywords) {
    const std::string& name = this->name(method.name);
    switch (method.self.kind()) {
        case Kind::kTile:
        case Kind::kPending: return tile_method(name, method.self, arguments, keywords);
        case Kind::kDType:
            if (arguments.size() != 1) rejected("type_error", "type() takes one value").raise();
            return convert(static_cast<DType>(method.self.integer()), arguments[0]);
        case Kind::kString:
            return string_method(name, method.self.as<String>().text, arguments);
        case Kind::kArray: {
            const HostArray& from = method.self.as<HostArray>();
            if (arguments.empty()) rejected("type_error", name + "() needs an argument").raise();
            const Ref<HostArray> made = heap_.make<HostArray>();
            heap_.grow(*made, static_cast<std::int64_t>(from.values.size() * 8));
            made->shape = from.shape;
            made->dtype = from.dtype;
            made->values = from.values;
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
        default: break;
    }
    for (auto& [keyword, value] : keywords) {
        if (this->name(keyword) != "default")
            unsupported("python_feature", fmt::format("keyword arguments of {}()", name)).raise();
        arguments.push_back(value);
    }
    return collection_method(name, method, arguments);
}

Value Evaluator::tile_method(const std::string& name, const Value& self,
                             std::vector<Value>& arguments, Keywords& keywords) {
    const Ref<Tile> tile = materialise(self);
    if (name == "reshape" || name == "broadcast_to" || name == "assert_shape") {
        for (auto& [keyword, value] : keywords) arguments.push_back(value);
        std::vector<std::int64_t> shape;
        const std::vector<Value> dims =
            arguments.size() == 1 && !arguments[0].is_integer() ? items_of(arguments[0]) : arguments;
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
                rejected("assertion_failed", fmt::format("shape {} is not {}", shape_text(tile->shape()),
                                                         shape_text(shape)))
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
    return dispatch(Value::token(Kind::kApi, find_api(api)), all, keywords, nullptr);
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
    unsupported("python_feature", fmt::format("str.{}() is not supported", name)).raise();
}

namespace {

std::int64_t position(Evaluator& host, const Value& value, std::size_t size) {
    std::int64_t k = host.to_integer(value, "a list index");
    if (k < 0) k += static_cast<std::int64_t>(size);
    return k;
}

}  // namespace

Value Evaluator::collection_method(const std::string& name, Method& method,
                                   std::vector<Value>& arguments) {
    const auto expect = [&](std::size_t low, std::size_t high) {
        if (arguments.size() < low || arguments.size() > high)
            rejected("type_error", fmt::format("{}() got {} arguments", name, arguments.size())).raise();
    };
    for (Value& argument : arguments) argument = kept(std::move(argument));
    const Value& self = method.self;
    if (self.is(Kind::kDict) || self.is(Kind::kSet)) {
        Mapping& mapping = self.as<Mapping>();
        std::vector<Value> items;
        if (name == "items" || name == "keys" || name == "values") {
            expect(0, 0);
            for (const auto& [key, value] : mapping.entries)
                items.push_back(name == "items"  ? tuple({key, value})
                                : name == "keys" ? key
                                                 : value);
            return list(std::move(items));
        }
        if (name == "copy") {
            const Ref<Mapping> made = heap_.make<Mapping>();
            made->module_level = !in_kernel_;
            for (const auto& [key, value] : mapping.entries) set_entry(*made, key, value);
            return Value::object(self.kind(), made);
        }
        if (name == "get") {
            expect(1, 2);
            for (const auto& [key, value] : mapping.entries)
                if (equal(key, arguments[0])) return value;
            return arguments.size() == 2 ? arguments[1] : Value::none();
        }
        check_mutable(mapping);
        if (name == "add") {
            expect(1, 1);
            set_entry(mapping, arguments[0], Value::none());
            return Value::none();
        }
        if (name == "update") {
            expect(1, 1);
            if (arguments[0].is(Kind::kDict) && self.is(Kind::kDict)) {
                const auto entries = arguments[0].as<Mapping>().entries;
                for (const auto& [key, value] : entries) set_entry(mapping, key, value);
            } else {
                for (const Value& item : items_of(arguments[0])) set_entry(mapping, item, Value::none());
            }
            return Value::none();
        }
        expect(1, 2);
        for (std::size_t k = 0; k < mapping.entries.size(); ++k) {
            if (!equal(mapping.entries[k].first, arguments[0])) continue;
            const Value found = mapping.entries[k].second;
            if (name == "pop") mapping.entries.erase(mapping.entries.begin() + static_cast<long>(k));
            return found;
        }
        if (name == "setdefault") {
            set_entry(mapping, arguments[0], arguments.size() == 2 ? arguments[1] : Value::none());
            return arguments.size() == 2 ? arguments[1] : Value::none();
        }
        if (arguments.size() == 2) return arguments[1];
        rejected("value_error", fmt::format("key {} is not in the dict", repr(arguments[0]))).raise();
    }
    Sequence& sequence = self.as<Sequence>();
    if (name == "index" || name == "count") {
        expect(1, 1);
        std::int64_t count = 0;
        for (std::size_t k = 0; k < sequence.items.size(); ++k) {
            if (!equal(sequence.items[k], arguments[0])) continue;
            if (name == "index") return Value::integer(static_cast<std::int64_t>(k));
            ++count;
        }
        if (name == "count") return Value::integer(count);
        rejected("value_error", fmt::format("{} is not in the list", repr(arguments[0]))).raise();
    }
    if (name == "copy") return list(items_of(self));
    check_mutable(sequence);
    if (name == "append") {
        expect(1, 1);
        append(sequence, arguments[0]);
    } else if (name == "extend") {
        expect(1, 1);
        for (Value& item : items_of(arguments[0])) append(sequence, std::move(item));
    } else if (name == "insert") {
        expect(2, 2);
        const std::int64_t size = static_cast<std::int64_t>(sequence.items.size());
        const std::int64_t k =
            std::clamp<std::int64_t>(position(*this, arguments[0], sequence.items.size()), 0, size);
        heap_.grow(sequence, sizeof(Value));
        tick(1 + size / 16);
        sequence.items.insert(sequence.items.begin() + k, arguments[1]);
    } else if (name == "pop") {
        expect(0, 1);
        const std::int64_t size = static_cast<std::int64_t>(sequence.items.size());
        const std::int64_t k =
            arguments.empty() ? size - 1 : position(*this, arguments[0], sequence.items.size());
        if (k < 0 || k >= size) rejected("value_error", "pop index out of range").raise();
        tick(1 + size / 16);
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
