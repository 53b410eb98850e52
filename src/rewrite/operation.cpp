#include "rewrite/operation.h"

#include <map>

namespace accelopt::rewrite {

CallKind call_kind(const std::string& path) {
    static const std::map<std::string, CallKind> kKinds = [] {
        std::map<std::string, CallKind> kinds;
        for (const char* name : {"add",         "subtract",   "multiply",
                                 "divide",      "maximum",    "minimum",
                                 "power",       "mod",        "fmod",
                                 "abs",         "negative",   "sign",
                                 "square",      "sqrt",       "rsqrt",
                                 "reciprocal",  "floor",      "ceil",
                                 "trunc",       "exp",        "log",
                                 "sin",         "cos",        "tan",
                                 "arctan",      "tanh",       "erf",
                                 "erf_dx",      "sigmoid",    "relu",
                                 "gelu",        "gelu_dx",    "gelu_apprx_tanh",
                                 "silu",        "silu_dx",    "mish",
                                 "softplus",    "copy",       "where",
                                 "equal",       "not_equal",  "less",
                                 "less_equal",  "greater",    "greater_equal",
                                 "logical_and", "logical_or", "logical_not",
                                 "invert"}) {
            kinds[std::string("nl.") + name] = CallKind::kElementwise;
        }
        for (const char* name : {"activation", "tensor_scalar", "tensor_tensor",
                                 "scalar_tensor_tensor", "reciprocal", "tensor_copy"}) {
            kinds[std::string("nisa.") + name] = CallKind::kElementwise;
        }
        for (const char* name : {"nl.sum", "nl.max", "nl.min", "nl.mean", "nl.prod", "nl.var",
                                 "nisa.tensor_reduce", "nl.loop_reduce", "nl.all_reduce",
                                 "nisa.activation_reduce", "nisa.tensor_tensor_scan"}) {
            kinds[name] = CallKind::kReduce;
        }
        kinds["nl.load"] = CallKind::kLoad;
        kinds["nl.store"] = CallKind::kStore;
        kinds["nl.matmul"] = kinds["nisa.nc_matmul"] = CallKind::kMatmul;
        kinds["nl.transpose"] = kinds["nisa.nc_transpose"] = CallKind::kTranspose;
        kinds["nisa.memset"] = CallKind::kFill;
        kinds["nl.ndarray"] = kinds["nl.zeros"] = kinds["nl.ones"] = CallKind::kAllocate;
        kinds["nl.full"] = kinds["nl.empty"] = CallKind::kAllocate;
        return kinds;
    }();
    const auto entry = kKinds.find(path);
    return entry == kKinds.end() ? CallKind::kOther : entry->second;
}

}  // namespace accelopt::rewrite
