#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

[[noreturn]] void no_attribute(const Value& base, const std::string& name) {
    rejected("type_error", fmt::format("'{}' has no attribute '{}'", kind_name(base.kind()), name))
        .raise();
}

[[noreturn]] void unknown_name(const ApiTable& api, ModuleId module, const std::string& name) {
    const std::string near = nearest_word(name, module_names(api, module));
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
        case Kind::kTuple:
            return among({"index", "count"});
        case Kind::kDict:
            return among({"get", "items", "keys", "values", "update", "pop", "setdefault", "copy"});
        case Kind::kSet:
            return among({"add", "update", "copy"});
        case Kind::kString:
            return among({"join", "lower", "upper", "startswith", "endswith", "replace", "split",
                          "strip", "format"});
        case Kind::kTile:
        case Kind::kPending:
            return among({"reshape", "broadcast_to", "astype", "expand_dims", "view", "transpose",
                          "assert_shape"});
        case Kind::kArray:
            return among({"reshape", "astype", "max", "min", "sum", "prod"});
        case Kind::kDType:
            return name == "type";
        default:
            return false;
    }
}

struct FloatRange {
    double largest;
    double epsilon;
    double smallest;  ///< normal
};

FloatRange float_range(DType dtype) {
    switch (dtype) {
        case DType::kBFloat16:
            return {0x1.fep127, 0x1p-7, 0x1p-126};
        case DType::kFloat16:
            return {65504.0, 0x1p-10, 0x1p-14};
        case DType::kTFloat32:
            return {0x1.ffcp127, 0x1p-10, 0x1p-126};
        case DType::kFloat8E4M3:
            return {240.0, 0x1p-3, 0x1p-6};
        case DType::kFloat8E5M2:
            return {57344.0, 0x1p-2, 0x1p-14};
        default:
            return {0x1.fffffep127, 0x1p-23, 0x1p-126};
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
            refuse_host_module(base);
            const auto module = static_cast<ModuleId>(base.integer());
            const std::optional<Value> value = module_attribute(table_, module, name);
            if (!value) unknown_name(table_, module, name);
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
            if (name == "ndim")
                return Value::integer(static_cast<std::int64_t>(base.as<HostArray>().shape.size()));
            if (name == "size")
                return Value::integer(
                    static_cast<std::int64_t>(base.as<HostArray>().values.size()));
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
                const FloatRange range = float_range(base.dtype().value_or(DType::kFloat32));
                if (name == "max") return Value::number(range.largest);
                if (name == "min") return Value::number(-range.largest);
                if (name == "eps") return Value::number(range.epsilon);
                if (name == "tiny" || name == "smallest_normal")
                    return Value::number(range.smallest);
            }
            break;
        case Kind::kOpaque:
            return base;
        default:
            break;
    }
    if (!is_method(base.kind(), name)) no_attribute(base, name);
    const Ref<Method> method = heap_.make<Method>();
    method->self = base;
    method->name = name_id;
    return Value::object(Kind::kMethod, method);
}

}  // namespace accelopt::nki::interp
