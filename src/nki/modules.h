#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nki/value.h"

namespace accelopt::nki::interp {

class ApiTable;

/// The modules and constant namespaces that a kernel can name.
enum class ModuleId : int {
    kNeuronxcc,
    kNki,
    kLanguage,
    kIsa,
    kTyping,
    kCompiler,
    kNumpy,
    kMath,
    kTileSize,
    kFp32,
    kEngineNames,
    kReduceCmd,
    kDgeMode,
    kOobMode,
    kNcVersion,
    kCompilerSbuf,
    kCompilerPsum,
    kConstants,
    kBfp16,
    kFunctools,
    kOperator,
    kOpaque,
    kHost  ///< and above: a module of Python that kernels may import but not use
};

/// Named constants that are neither numbers nor dtypes.
enum class TokenId : int {
    kMgrid,
    kNewAxis,
    kReduceIdle,
    kReduceReset,
    kReduceReduce,
    kReduceResetReduce,
    kDgeNone,
    kDgeSw,
    kDgeHw,
    kDgeUnknown,
    kOobError,
    kOobSkip,
    kGen2,
    kGen3,
    kDTypeConstructor,
    kFinfo,
    kFinfoValue,
    kNamedScope,
    kPartial,
    kReduce,
    kSizeInBytes,
    kScalar
};

/// Finds an importable module by dotted path. Raises forbidden_api for modules that reach outside
/// (os, sys, ...), unsupported/python_feature for other unknown ones.
ModuleId import_module(const std::string& path);

/// True for a module of Python that kernels have no use for (os, torch, argparse, ...): files may
/// import it for their code on the host, as long as nothing of it is used by what is traced.
bool is_host_module(const std::string& path);
/// Raises what a use of such a module is: forbidden_api where it reaches outside, else
/// unsupported/python_feature.
[[noreturn]] void use_of_host_module(const std::string& path);

/// Looks a name up in a module; nullopt when it has no such name.
std::optional<Value> module_attribute(const ApiTable& api, ModuleId module,
                                      const std::string& name);
/// All names of a module, for hints.
std::vector<std::string> module_names(const ApiTable& api, ModuleId module);
std::string_view module_path(ModuleId module);

/// One function of numpy or math: what it computes on numbers, and what it means as an `op=`.
struct NumpyEntry {
    std::string_view name;
    AluOp alu = AluOp::kNone;
    std::optional<ActFunction> act;
    double (*unary)(double) = nullptr;
    bool in_math = false;
};
const std::vector<NumpyEntry>& numpy_table();

/// Parses a dtype name ("float32", "bfloat16", ...).
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace accelopt::nki::interp
