#include <algorithm>

#include "nki/api.h"
#include "nki/interpreter.h"

namespace accelopt::nki::interp {
namespace {

using A = ActFunction;
using enum AluOp;

// Sections of the NKI 1 documentation (nki.language.rst, nki.isa.rst).
constexpr std::string_view kMemory = "Memory operations";
constexpr std::string_view kCreation = "Creation operations";
constexpr std::string_view kMath = "Math operations";
constexpr std::string_view kBits = "Bitwise operations";
constexpr std::string_view kLogic = "Logical operations";
constexpr std::string_view kIndex = "Tensor manipulation operations";
constexpr std::string_view kIterators = "Iterators";
constexpr std::string_view kOthers = "Others";
constexpr std::string_view kIsa = "NKI ISA";
constexpr std::string_view kDecorators = "nki";

constexpr std::string_view kNew = "shape, dtype?, *, buffer?, name?, lazy_initialization?";
constexpr std::string_view kLike = "a, dtype?, *, buffer?, name?";
constexpr std::string_view kUnary = "x, *, dtype?, mask?";
constexpr std::string_view kBinary = "x, y, *, dtype?, mask?";
constexpr std::string_view kReduce = "x, axis, *, dtype?, mask?, keepdims?";
constexpr std::string_view kRange = "start, stop?, step?";
constexpr std::string_view kAny = "x?";

std::vector<ApiEntry> language_entries() {
    return {
        {"nl.ndarray", kNew, api::ndarray, kNone, {}, Engine::kAuto, kCreation},
        {"nl.zeros", kNew, api::zeros, kNone, {}, Engine::kAuto, kCreation},
        {"nl.ones", kNew, api::ones, kNone, {}, Engine::kAuto, kCreation},
        {"nl.full",
         "shape, fill_value, dtype?, *, buffer?, name?",
         api::full,
         kNone,
         {},
         Engine::kAuto,
         kCreation},
        {"nl.empty_like", kLike, api::empty_like, kNone, {}, Engine::kAuto, kCreation},
        {"nl.zeros_like", kLike, api::zeros_like, kNone, {}, Engine::kAuto, kCreation},
        {"nl.shared_constant",
         "constant, dtype?",
         api::shared_constant,
         kNone,
         {},
         Engine::kAuto,
         kCreation},
        {"nl.shared_identity_matrix",
         "n, dtype?",
         api::shared_identity_matrix,
         kNone,
         {},
         Engine::kAuto,
         kCreation},
        {"nl.rand", kAny, nullptr, kNone, {}, Engine::kAuto, kCreation},
        {"nl.random_seed", kAny, nullptr, kNone, {}, Engine::kAuto, kCreation},

        {"nl.load", "src, *, mask?, dtype?", api::load, kNone, {}, Engine::kDma, kMemory},
        {"nl.store", "dst, value, *, mask?", api::store, kNone, {}, Engine::kDma, kMemory},
        {"nl.load_transpose2d", kAny, nullptr, kNone, {}, Engine::kDma, kMemory},
        {"nl.atomic_rmw", kAny, nullptr, kNone, {}, Engine::kDma, kMemory},
        {"nl.copy", "src, *, mask?, dtype?", api::copy, kBypass, A::kCopy, Engine::kAuto, kMemory},
        {"nl.broadcast_to", "src, shape", api::broadcast_to, kNone, {}, Engine::kAuto, kMemory},

        {"nl.exp", kUnary, api::unary, kNone, A::kExp, Engine::kAuto, kMath},
        {"nl.log", kUnary, api::unary, kNone, A::kLog, Engine::kAuto, kMath},
        {"nl.sin", kUnary, api::unary, kNone, A::kSin, Engine::kAuto, kMath},
        {"nl.cos", kUnary, api::unary, kNone, A::kCos, Engine::kAuto, kMath},
        {"nl.tan", kUnary, api::unary, kNone, A::kTan, Engine::kAuto, kMath},
        {"nl.arctan", kUnary, api::unary, kNone, A::kArctan, Engine::kAuto, kMath},
        {"nl.tanh", kUnary, api::unary, kNone, A::kTanh, Engine::kAuto, kMath},
        {"nl.erf", kUnary, api::unary, kNone, A::kErf, Engine::kAuto, kMath},
        {"nl.erf_dx", kUnary, api::unary, kNone, A::kErfDx, Engine::kAuto, kMath},
        {"nl.sigmoid", kUnary, api::unary, kNone, A::kSigmoid, Engine::kAuto, kMath},
        {"nl.relu", kUnary, api::unary, kNone, A::kRelu, Engine::kAuto, kMath},
        {"nl.gelu", kUnary, api::unary, kNone, A::kGelu, Engine::kAuto, kMath},
        {"nl.gelu_dx", kUnary, api::unary, kNone, A::kGeluDx, Engine::kAuto, kMath},
        {"nl.gelu_apprx_tanh", kUnary, api::unary, kNone, A::kGeluApproxTanh, Engine::kAuto, kMath},
        {"nl.gelu_apprx_sigmoid", kAny, nullptr, kNone, {}, Engine::kAuto, kMath},
        {"nl.silu", kUnary, api::unary, kNone, A::kSilu, Engine::kAuto, kMath},
        {"nl.silu_dx", kUnary, api::unary, kNone, A::kSiluDx, Engine::kAuto, kMath},
        {"nl.mish", kUnary, api::unary, kNone, A::kMish, Engine::kAuto, kMath},
        {"nl.softplus", kUnary, api::unary, kNone, A::kSoftplus, Engine::kAuto, kMath},
        {"nl.sqrt", kUnary, api::unary, kNone, A::kSqrt, Engine::kAuto, kMath},
        {"nl.rsqrt", kUnary, api::unary, kNone, A::kRsqrt, Engine::kAuto, kMath},
        {"nl.square", kUnary, api::unary, kNone, A::kSquare, Engine::kAuto, kMath},
        {"nl.abs", kUnary, api::unary, kNone, A::kAbs, Engine::kAuto, kMath},
        {"nl.sign", kUnary, api::unary, kNone, A::kSign, Engine::kAuto, kMath},
        {"nl.floor", kUnary, api::unary, kNone, A::kFloor, Engine::kAuto, kMath},
        {"nl.ceil", kUnary, api::unary, kNone, A::kCeil, Engine::kAuto, kMath},
        {"nl.trunc", kUnary, api::unary, kNone, A::kTrunc, Engine::kAuto, kMath},
        {"nl.reciprocal", kUnary, api::reciprocal, kNone, A::kReciprocal, Engine::kAuto, kMath},
        {"nl.negative", kUnary, api::negative, kNone, {}, Engine::kAuto, kMath},

        {"nl.add", kBinary, api::binary, kAdd, {}, Engine::kAuto, kMath},
        {"nl.subtract", kBinary, api::binary, kSubtract, {}, Engine::kAuto, kMath},
        {"nl.multiply", kBinary, api::binary, kMultiply, {}, Engine::kAuto, kMath},
        {"nl.divide", kBinary, api::binary, kDivide, {}, Engine::kAuto, kMath},
        {"nl.maximum", kBinary, api::binary, AluOp::kMax, {}, Engine::kAuto, kMath},
        {"nl.minimum", kBinary, api::binary, AluOp::kMin, {}, Engine::kAuto, kMath},
        {"nl.power", kBinary, api::binary, kPower, {}, Engine::kAuto, kMath},
        {"nl.mod", kBinary, api::binary, kMod, {}, Engine::kAuto, kMath},
        {"nl.fmod", kAny, nullptr, kNone, {}, Engine::kAuto, kMath},

        {"nl.sum", kReduce, api::reduction, kAdd, {}, Engine::kAuto, kMath},
        {"nl.max", kReduce, api::reduction, AluOp::kMax, {}, Engine::kAuto, kMath},
        {"nl.min", kReduce, api::reduction, AluOp::kMin, {}, Engine::kAuto, kMath},
        {"nl.prod", kReduce, api::reduction, kMultiply, {}, Engine::kAuto, kMath},
        {"nl.mean", kReduce, api::mean, kNone, {}, Engine::kAuto, kMath},
        {"nl.var", kAny, nullptr, kNone, {}, Engine::kAuto, kMath},
        {"nl.all", kAny, nullptr, kNone, {}, Engine::kAuto, kMath},
        {"nl.softmax", kAny, nullptr, kNone, {}, Engine::kAuto, kMath},
        {"nl.rms_norm", kAny, nullptr, kNone, {}, Engine::kAuto, kMath},
        {"nl.dropout", kAny, nullptr, kNone, {}, Engine::kAuto, kMath},
        {"nl.matmul", "x, y, *, transpose_x?, mask?", api::matmul, kNone, {}, Engine::kAuto, kMath},
        {"nl.transpose", kUnary, api::transpose, kNone, {}, Engine::kAuto, kMath},

        {"nl.bitwise_and", kBinary, api::binary, kBitwiseAnd, {}, Engine::kAuto, kBits},
        {"nl.bitwise_or", kBinary, api::binary, kBitwiseOr, {}, Engine::kAuto, kBits},
        {"nl.bitwise_xor", kBinary, api::binary, kBitwiseXor, {}, Engine::kAuto, kBits},
        {"nl.left_shift", kBinary, api::binary, kShiftLeft, {}, Engine::kAuto, kBits},
        {"nl.right_shift", kBinary, api::binary, kShiftRight, {}, Engine::kAuto, kBits},
        {"nl.invert", kUnary, api::unary, kNone, A::kInvert, Engine::kAuto, kBits},

        {"nl.equal", kBinary, api::binary, kEqual, {}, Engine::kAuto, kLogic},
        {"nl.not_equal", kBinary, api::binary, kNotEqual, {}, Engine::kAuto, kLogic},
        {"nl.greater", kBinary, api::binary, kGreater, {}, Engine::kAuto, kLogic},
        {"nl.greater_equal", kBinary, api::binary, kGreaterEqual, {}, Engine::kAuto, kLogic},
        {"nl.less", kBinary, api::binary, kLess, {}, Engine::kAuto, kLogic},
        {"nl.less_equal", kBinary, api::binary, kLessEqual, {}, Engine::kAuto, kLogic},
        {"nl.logical_and", kBinary, api::binary, kLogicalAnd, {}, Engine::kAuto, kLogic},
        {"nl.logical_or", kBinary, api::binary, kLogicalOr, {}, Engine::kAuto, kLogic},
        {"nl.logical_xor", kAny, nullptr, kNone, {}, Engine::kAuto, kLogic},
        {"nl.logical_not", kUnary, api::unary, kNone, A::kLogicalNot, Engine::kAuto, kLogic},

        {"nl.ds", "start, size", api::ds, kNone, {}, Engine::kAuto, kIndex},
        {"nl.arange", "start, stop?", api::arange, kNone, {}, Engine::kAuto, kIndex},
        {"nl.expand_dims", "data, axis", api::expand_dims, kNone, {}, Engine::kAuto, kIndex},
        {"nl.where",
         "condition, x, y, *, dtype?, mask?",
         api::where,
         kNone,
         {},
         Engine::kAuto,
         kIndex},
        {"nl.gather_flattened", kAny, nullptr, kNone, {}, Engine::kAuto, kIndex},
        {"nl.all_reduce", kAny, nullptr, kNone, {}, Engine::kAuto, kIndex},
        {"nl.static_cast",
         "input_data, dtype",
         api::static_cast_,
         kNone,
         {},
         Engine::kAuto,
         kIndex},

        {"nl.affine_range", kRange, api::loop_range, kNone, {}, Engine::kAuto, kIterators},
        {"nl.sequential_range", kRange, api::loop_range, kNone, {}, Engine::kAuto, kIterators},
        {"nl.static_range", kRange, api::loop_range, kNone, {}, Engine::kAuto, kIterators},
        {"nl.par_dim", "size", api::par_dim, kNone, {}, Engine::kAuto, kIterators},

        {"nl.program_id", "axis?", api::program_id, kNone, {}, Engine::kAuto, kOthers},
        {"nl.num_programs", "axes?", api::num_programs, kNone, {}, Engine::kAuto, kOthers},
        {"nl.program_ndim", "", api::program_ndim, kNone, {}, Engine::kAuto, kOthers},
        {"nl.spmd_dim", kAny, nullptr, kNone, {}, Engine::kAuto, kOthers},
        {"nl.nc", kAny, nullptr, kNone, {}, Engine::kAuto, kOthers},
        {"nl.device_print",
         "prefix, x, *, mask?",
         api::device_print,
         kNone,
         {},
         Engine::kAuto,
         kOthers},
        {"nl.loop_reduce",
         "x, op, loop_indices, *, dtype?, mask?",
         api::loop_reduce,
         kNone,
         {},
         Engine::kAuto,
         kOthers},
    };
}

std::vector<ApiEntry> isa_entries() {
    constexpr std::string_view kActivation =
        "op, data, *, bias?, scale?, reduce_op?, reduce_res?, reduce_cmd?, mask?, dtype?";
    return {
        {"nisa.nc_matmul",
         "stationary, moving, *, is_stationary_onezero?, is_moving_onezero?, is_transpose?, "
         "tile_position?, tile_size?, mask?",
         api::nc_matmul,
         kNone,
         {},
         Engine::kTensor,
         kIsa},
        {"nisa.nc_transpose",
         "data, *, mask?, dtype?, engine?",
         api::nc_transpose,
         kNone,
         {},
         Engine::kAuto,
         kIsa},
        {"nisa.activation", kActivation, api::activation, kNone, {}, Engine::kScalar, kIsa},
        {"nisa.activation_reduce",
         "op, data, *, reduce_op, reduce_res, bias?, scale?, mask?, dtype?",
         api::activation_reduce,
         kNone,
         {},
         Engine::kScalar,
         kIsa},
        {"nisa.tensor_scalar",
         "data, op0, operand0, reverse0?, op1?, operand1?, reverse1?, *, dtype?, mask?, engine?",
         api::tensor_scalar,
         kNone,
         {},
         Engine::kAuto,
         kIsa},
        {"nisa.tensor_tensor",
         "data1, data2, op, *, dtype?, mask?, engine?",
         api::tensor_tensor,
         kNone,
         {},
         Engine::kAuto,
         kIsa},
        {"nisa.scalar_tensor_tensor",
         "*, data, op0, operand0, op1, operand1, reverse0?, reverse1?, dtype?, mask?",
         api::scalar_tensor_tensor,
         kNone,
         {},
         Engine::kVector,
         kIsa},
        {"nisa.tensor_tensor_scan",
         "data0, data1, initial, op0, op1, reverse0?, reverse1?, *, dtype?, mask?",
         api::tensor_tensor_scan,
         kNone,
         {},
         Engine::kVector,
         kIsa},
        {"nisa.tensor_reduce",
         "op, data, axis, *, mask?, dtype?, negate?, keepdims?",
         api::tensor_reduce,
         kNone,
         {},
         Engine::kVector,
         kIsa},
        {"nisa.reciprocal",
         "data, *, dtype?, mask?",
         api::reciprocal,
         kNone,
         {},
         Engine::kVector,
         kIsa},
        {"nisa.tensor_copy",
         "src, *, mask?, dtype?, engine?",
         api::tensor_copy,
         kNone,
         {},
         Engine::kAuto,
         kIsa},
        {"nisa.memset",
         "shape, value, dtype?, *, mask?, engine?",
         api::memset,
         kNone,
         {},
         Engine::kAuto,
         kIsa},
        {"nisa.iota", "expr, dtype?, *, mask?", api::iota, kNone, {}, Engine::kGpSimd, kIsa},
        {"nisa.affine_select",
         "pred, on_true_tile, on_false_value, *, mask?, dtype?",
         api::affine_select,
         kNone,
         {},
         Engine::kGpSimd,
         kIsa},
        {"nisa.dma_copy",
         "*, dst, src, mask?, dst_rmw_op?, oob_mode?, dge_mode?",
         api::dma_copy,
         kNone,
         {},
         Engine::kDma,
         kIsa},
        {"nisa.get_nc_version", "", api::get_nc_version, kNone, {}, Engine::kAuto, kIsa},
        {"nisa.tensor_scalar_reduce", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.tensor_partition_reduce", kAny, nullptr, kNone, {}, Engine::kGpSimd, kIsa},
        {"nisa.tensor_copy_predicated", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.tensor_copy_dynamic_src", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.tensor_copy_dynamic_dst", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.range_select", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.select_reduce", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.sequence_bounds", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.bn_stats", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.bn_aggr", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.max8", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.nc_find_index8", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.nc_match_replace8", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.nc_stream_shuffle", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.local_gather", kAny, nullptr, kNone, {}, Engine::kGpSimd, kIsa},
        {"nisa.dma_transpose", kAny, nullptr, kNone, {}, Engine::kDma, kIsa},
        {"nisa.dropout", kAny, nullptr, kNone, {}, Engine::kVector, kIsa},
        {"nisa.builtin_custom_op", kAny, nullptr, kNone, {}, Engine::kAuto, kIsa},
    };
}

std::vector<ApiEntry> decorator_entries() {
    constexpr std::string_view kJit =
        "func?, *, mode?, warmup?, iters?, save_neff_name?, save_trace_name?, "
        "additional_compile_opt?, artifacts_dir?, platform_target?, kernel_return?, "
        "show_compiler_tb?, working_directory?, overwrite?, profile_nth?";
    std::vector<ApiEntry> entries;
    for (const char* name :
         {"nki.jit", "nki.trace", "nki.benchmark", "nki.profile", "nki.baremetal"})
        entries.push_back({name, kJit, api::decorator, kNone, {}, Engine::kAuto, kDecorators});
    return entries;
}

}  // namespace

const std::vector<ApiEntry>& api_table() {
    static const std::vector<ApiEntry> table = [] {
        std::vector<ApiEntry> all = language_entries();
        for (ApiEntry& entry : isa_entries()) all.push_back(entry);
        for (ApiEntry& entry : decorator_entries()) all.push_back(entry);
        return all;
    }();
    return table;
}

}  // namespace accelopt::nki::interp

namespace accelopt::nki {

std::vector<std::string> api_entries() {
    std::vector<std::string> names;
    for (const interp::ApiEntry& entry : interp::api_table())
        if (entry.handler != nullptr) names.emplace_back(entry.name);
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace accelopt::nki
