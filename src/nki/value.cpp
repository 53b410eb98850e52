#include "nki/value.h"

namespace accelopt::nki::interp {

const char* kind_name(Kind kind) {
    switch (kind) {
        case Kind::kUnbound:
            return "nothing";
        case Kind::kNone:
            return "None";
        case Kind::kEllipsis:
            return "Ellipsis";
        case Kind::kBool:
            return "bool";
        case Kind::kInt:
            return "int";
        case Kind::kFloat:
            return "float";
        case Kind::kDType:
            return "dtype";
        case Kind::kBuffer:
            return "buffer";
        case Kind::kEngine:
            return "engine";
        case Kind::kToken:
            return "constant";
        case Kind::kModule:
            return "module";
        case Kind::kApi:
        case Kind::kNumpy:
        case Kind::kBuiltin:
        case Kind::kFunction:
            return "function";
        case Kind::kOpaque:
            return "imported name";
        case Kind::kString:
            return "str";
        case Kind::kTuple:
            return "tuple";
        case Kind::kList:
            return "list";
        case Kind::kDict:
            return "dict";
        case Kind::kSet:
            return "set";
        case Kind::kSlice:
            return "slice";
        case Kind::kRange:
            return "range";
        case Kind::kAffine:
            return "index";
        case Kind::kMask:
            return "mask";
        case Kind::kTile:
        case Kind::kPending:
            return "tile";
        case Kind::kArray:
            return "array";
        case Kind::kMethod:
            return "method";
        case Kind::kAllocation:
            return "buffer";
        case Kind::kDynamic:
            return "index";
        case Kind::kPartial:
            return "function";
    }
    return "value";
}

std::int64_t Range::count() const {
    if (step > 0 && stop > start) {
        // The difference may exceed 63 bits; unsigned arithmetic does not.
        const auto span = static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start) - 1;
        const std::uint64_t n = span / static_cast<std::uint64_t>(step) + 1;
        return n > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(n);
    }
    if (step < 0 && stop < start) {
        const auto span = static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop) - 1;
        const std::uint64_t n = span / (0 - static_cast<std::uint64_t>(step)) + 1;
        return n > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(n);
    }
    return 0;
}

}  // namespace accelopt::nki::interp
