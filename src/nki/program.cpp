#include "nki/program.h"

#include <array>

#include "core/error.h"

namespace accelopt::nki {
namespace {

constexpr std::array<std::string_view, 13> kDTypeNames = {
    "float32", "bfloat16", "float16", "tfloat32", "float8_e4m3", "float8_e5m2", "int8",
    "int16",   "int32",    "uint8",   "uint16",   "uint32",      "bool"};
constexpr std::array<int, 13> kDTypeSizes = {4, 2, 2, 4, 1, 1, 1, 2, 4, 1, 2, 4, 1};

constexpr std::array<std::string_view, 3> kBufferNames = {"hbm", "sbuf", "psum"};

constexpr std::array<std::string_view, 33> kOpcodeNames = {"load",
                                                           "store",
                                                           "dma_copy",
                                                           "memset",
                                                           "iota",
                                                           "copy",
                                                           "activation",
                                                           "tensor_scalar",
                                                           "tensor_tensor",
                                                           "scalar_tensor_tensor",
                                                           "reciprocal",
                                                           "reduce",
                                                           "scan",
                                                           "select",
                                                           "transpose",
                                                           "matmul",
                                                           "partition_broadcast",
                                                           "gather",
                                                           "scatter",
                                                           "take",
                                                           "local_gather",
                                                           "shuffle",
                                                           "partition_reduce",
                                                           "bn_stats",
                                                           "bn_aggr",
                                                           "max8",
                                                           "find_index8",
                                                           "match_index8",
                                                           "match_replace8",
                                                           "sequence_bounds",
                                                           "range_select",
                                                           "random",
                                                           "dropout"};

constexpr std::array<std::string_view, 27> kAluOpNames = {
    "none",        "add",         "subtract",      "multiply",    "divide",     "max",
    "min",         "power",       "mod",           "equal",       "not_equal",  "less",
    "less_equal",  "greater",     "greater_equal", "logical_and", "logical_or", "bitwise_and",
    "bitwise_or",  "bitwise_xor", "left_shift",    "right_shift", "abs_max",    "bypass",
    "logical_xor", "fmod",        "rsqrt"};

constexpr std::array<std::string_view, 31> kActFunctionNames = {"copy",
                                                                "exp",
                                                                "log",
                                                                "sin",
                                                                "cos",
                                                                "tan",
                                                                "arctan",
                                                                "tanh",
                                                                "erf",
                                                                "erf_dx",
                                                                "sigmoid",
                                                                "relu",
                                                                "gelu",
                                                                "gelu_dx",
                                                                "gelu_apprx_tanh",
                                                                "silu",
                                                                "silu_dx",
                                                                "mish",
                                                                "softplus",
                                                                "sqrt",
                                                                "rsqrt",
                                                                "reciprocal",
                                                                "square",
                                                                "abs",
                                                                "sign",
                                                                "floor",
                                                                "ceil",
                                                                "trunc",
                                                                "invert",
                                                                "logical_not",
                                                                "gelu_apprx_sigmoid"};

constexpr std::array<std::string_view, 6> kEngineNames = {"auto",   "tensor", "vector",
                                                          "scalar", "gpsimd", "dma"};

template <typename Enum, std::size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, Enum value) {
    const auto index = static_cast<std::size_t>(value);
    return index < N ? names[index] : std::string_view("?");
}

}  // namespace

const View OptionalView::kNone{};

void Extent::overflow(std::int64_t value) {
    throw Error(ErrorSource::kInternal, "extent",
                "a stride or count does not fit 32 bits: " + std::to_string(value));
}

int size_of(DType dtype) { return kDTypeSizes[static_cast<std::size_t>(dtype)]; }
std::string_view to_string(DType dtype) { return name_of(kDTypeNames, dtype); }
std::string_view to_string(Buffer buffer) { return name_of(kBufferNames, buffer); }
std::string_view to_string(Opcode opcode) { return name_of(kOpcodeNames, opcode); }
std::string_view to_string(AluOp op) { return name_of(kAluOpNames, op); }
std::string_view to_string(ActFunction function) { return name_of(kActFunctionNames, function); }
std::string_view to_string(Engine engine) { return name_of(kEngineNames, engine); }

}  // namespace accelopt::nki
