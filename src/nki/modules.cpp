#include "nki/modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "nki/api.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

struct ModulePath {
    std::string_view path;
    ModuleId id;
};
constexpr std::array<ModulePath, 16> kModules = {{
    {"neuronxcc", ModuleId::kNeuronxcc},
    {"neuronxcc.nki", ModuleId::kNki},
    {"neuronxcc.nki.language", ModuleId::kLanguage},
    {"neuronxcc.nki.isa", ModuleId::kIsa},
    {"neuronxcc.nki.typing", ModuleId::kTyping},
    {"neuronxcc.nki.compiler", ModuleId::kCompiler},
    {"neuronxcc.nki.compiler.sbuf", ModuleId::kCompilerSbuf},
    {"neuronxcc.nki.compiler.psum", ModuleId::kCompilerPsum},
    {"neuronxcc.nki.language.constants", ModuleId::kConstants},
    {"functools", ModuleId::kFunctools},
    {"operator", ModuleId::kOperator},
    {"numpy", ModuleId::kNumpy},
    {"math", ModuleId::kMath},
    {"typing", ModuleId::kOpaque},
    {"__future__", ModuleId::kOpaque},
    {"collections.abc", ModuleId::kOpaque},
}};

/// Modules that reach files, processes, the network, the clock or the interpreter itself.
constexpr std::string_view kForbiddenModules[] = {
    "os",        "sys",      "subprocess", "socket",          "pathlib",    "io",     "ctypes",
    "importlib", "builtins", "threading",  "multiprocessing", "time",       "random", "inspect",
    "gc",        "pickle",   "shutil",     "tempfile",        "signal",     "urllib", "requests",
    "http",      "datetime", "platform",   "resource",        "mmap",       "ast",    "code",
    "traceback", "types",    "weakref",    "asyncio",         "concurrent", "site",   "glob",
    "fcntl",     "select",   "ssl",        "secrets",         "uuid",       "marshal"};

std::string root_of(const std::string& path) { return path.substr(0, path.find('.')); }

Value module_value(ModuleId id) { return Value::token(Kind::kModule, static_cast<int>(id)); }
Value token_value(TokenId id) { return Value::token(Kind::kToken, static_cast<int>(id)); }
Value buffer_value(BufferToken token) {
    return Value::token(Kind::kBuffer, static_cast<int>(token));
}
Value engine_value(Engine engine) { return Value::token(Kind::kEngine, static_cast<int>(engine)); }

/// A function of numpy as a value.
Value numpy_value(std::string_view name) {
    const std::vector<NumpyEntry>& table = numpy_table();
    for (std::size_t k = 0; k < table.size(); ++k)
        if (table[k].name == name && !table[k].in_math)
            return Value::token(Kind::kNumpy, static_cast<std::int64_t>(k));
    return Value::none();
}

constexpr double kFloatMax = std::numeric_limits<float>::max();

using Named = std::pair<std::string_view, Value>;

std::vector<Named> language_names() {
    std::vector<Named> names = {
        {"sbuf", buffer_value(BufferToken::kSbuf)},
        {"psum", buffer_value(BufferToken::kPsum)},
        {"hbm", buffer_value(BufferToken::kHbm)},
        {"private_hbm", buffer_value(BufferToken::kPrivateHbm)},
        {"shared_hbm", buffer_value(BufferToken::kSharedHbm)},
        {"mgrid", token_value(TokenId::kMgrid)},
        {"tile_size", module_value(ModuleId::kTileSize)},
        {"constants", module_value(ModuleId::kConstants)},
        {"fp32", module_value(ModuleId::kFp32)},
        {"bfp16", module_value(ModuleId::kBfp16)},
        {"named_scope", token_value(TokenId::kNamedScope)},
    };
    for (const std::string_view name :
         {"float32", "bfloat16", "float16", "tfloat32", "float8_e4m3", "float8_e5m2", "int8",
          "int16", "int32", "uint8", "uint16", "uint32", "bool_"})
        names.emplace_back(name, Value::token(Kind::kDType, static_cast<int>(*parse_dtype(name))));
    return names;
}

std::vector<Named> isa_names() {
    return {
        {"tensor_engine", engine_value(Engine::kTensor)},
        {"vector_engine", engine_value(Engine::kVector)},
        {"scalar_engine", engine_value(Engine::kScalar)},
        {"gpsimd_engine", engine_value(Engine::kGpSimd)},
        {"unknown_engine", engine_value(Engine::kAuto)},
        {"dma_engine", engine_value(Engine::kDma)},
        {"engine", module_value(ModuleId::kEngineNames)},
        {"fp32", module_value(ModuleId::kFp32)},
        {"reduce_cmd", module_value(ModuleId::kReduceCmd)},
        {"dge_mode", module_value(ModuleId::kDgeMode)},
        {"oob_mode", module_value(ModuleId::kOobMode)},
        {"nc_version", module_value(ModuleId::kNcVersion)},
    };
}

std::vector<Named> numpy_names() {
    std::vector<Named> names = {
        {"dtype", token_value(TokenId::kDTypeConstructor)},
        {"finfo", token_value(TokenId::kFinfo)},
        {"newaxis", token_value(TokenId::kNewAxis)},
        {"inf", Value::number(std::numeric_limits<double>::infinity())},
        {"nan", Value::number(std::numeric_limits<double>::quiet_NaN())},
        {"pi", Value::number(std::numbers::pi)},
        {"e", Value::number(std::numbers::e)},
    };
    for (const std::string_view name :
         {"float32", "float16", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bool_"})
        names.emplace_back(name, Value::token(Kind::kDType, static_cast<int>(*parse_dtype(name))));
    return names;
}

std::vector<Named> names_of(ModuleId module) {
    switch (module) {
        case ModuleId::kNeuronxcc:
            return {{"nki", module_value(ModuleId::kNki)}};
        case ModuleId::kNki:
            return {{"language", module_value(ModuleId::kLanguage)},
                    {"isa", module_value(ModuleId::kIsa)},
                    {"typing", module_value(ModuleId::kTyping)},
                    {"compiler", module_value(ModuleId::kCompiler)}};
        case ModuleId::kLanguage:
            return language_names();
        case ModuleId::kIsa:
            return isa_names();
        case ModuleId::kNumpy:
            return numpy_names();
        case ModuleId::kMath:
            return {{"pi", Value::number(std::numbers::pi)},
                    {"e", Value::number(std::numbers::e)},
                    {"tau", Value::number(2 * std::numbers::pi)},
                    {"inf", Value::number(std::numeric_limits<double>::infinity())},
                    {"nan", Value::number(std::numeric_limits<double>::quiet_NaN())}};
        case ModuleId::kTileSize:
            // NKI documentation, nki.language.tile_size; SBUF of facts/trainium.md section 2.
            return {{"pmax", Value::integer(128)},
                    {"psum_fmax", Value::integer(512)},
                    {"gemm_stationary_fmax", Value::integer(128)},
                    {"gemm_moving_fmax", Value::integer(512)},
                    {"bn_stats_fmax", Value::integer(512)},
                    {"psum_min_align", Value::integer(4)},
                    {"sbuf_min_align", Value::integer(1)},
                    {"total_available_sbuf_size", Value::integer(192 * 1024)}};
        case ModuleId::kFp32:
            return {{"min", Value::number(-kFloatMax)}};
        case ModuleId::kBfp16:  // bit pattern 0xff80
            return {{"min", Value::number(-std::numeric_limits<double>::infinity())}};
        case ModuleId::kEngineNames:
            return {{"tensor", engine_value(Engine::kTensor)},
                    {"vector", engine_value(Engine::kVector)},
                    {"scalar", engine_value(Engine::kScalar)},
                    {"gpsimd", engine_value(Engine::kGpSimd)},
                    {"unknown", engine_value(Engine::kAuto)}};
        case ModuleId::kReduceCmd:
            return {{"idle", token_value(TokenId::kReduceIdle)},
                    {"reset", token_value(TokenId::kReduceReset)},
                    {"reduce", token_value(TokenId::kReduceReduce)},
                    {"reset_reduce", token_value(TokenId::kReduceResetReduce)}};
        case ModuleId::kDgeMode:
            return {{"none", token_value(TokenId::kDgeNone)},
                    {"swdge", token_value(TokenId::kDgeSw)},
                    {"hwdge", token_value(TokenId::kDgeHw)},
                    {"unknown", token_value(TokenId::kDgeUnknown)}};
        case ModuleId::kOobMode:
            return {{"error", token_value(TokenId::kOobError)},
                    {"skip", token_value(TokenId::kOobSkip)}};
        case ModuleId::kNcVersion:
            return {{"gen2", token_value(TokenId::kGen2)}, {"gen3", token_value(TokenId::kGen3)}};
        case ModuleId::kCompiler:
            return {{"sbuf", module_value(ModuleId::kCompilerSbuf)},
                    {"psum", module_value(ModuleId::kCompilerPsum)}};
        case ModuleId::kConstants:
            return {{"sizeinbytes", token_value(TokenId::kSizeInBytes)}};
        case ModuleId::kFunctools:
            return {{"partial", token_value(TokenId::kPartial)},
                    {"reduce", token_value(TokenId::kReduce)}};
        case ModuleId::kOperator:
            return {{"mul", numpy_value("multiply")},
                    {"add", numpy_value("add")},
                    {"sub", numpy_value("subtract")}};
        case ModuleId::kTyping:
            return {{"scalar", token_value(TokenId::kScalar)}};
        case ModuleId::kCompilerSbuf:
        case ModuleId::kCompilerPsum:
        case ModuleId::kOpaque:
        case ModuleId::kHost:
            break;
    }
    return {};
}

std::string_view api_prefix(ModuleId module) {
    if (module == ModuleId::kLanguage) return "nl.";
    if (module == ModuleId::kIsa) return "nisa.";
    if (module == ModuleId::kCompiler) return "nki.compiler.";
    if (module == ModuleId::kCompilerSbuf) return "nki.compiler.sbuf.";
    if (module == ModuleId::kCompilerPsum) return "nki.compiler.psum.";
    return module == ModuleId::kNki ? "nki." : "";
}

}  // namespace

ModuleId import_module(const std::string& path) {
    for (const ModulePath& known : kModules)
        if (known.path == path) return known.id;
    for (const std::string_view name : kForbiddenModules)
        if (root_of(path) == name)
            rejected("forbidden_api", fmt::format("a kernel cannot import '{}'", path))
                .remedy("use neuronxcc.nki, numpy and math only")
                .raise();
    unsupported("python_feature", fmt::format("the module '{}' is not supported", path))
        .remedy("use neuronxcc.nki, numpy and math only")
        .raise();
}

bool is_host_module(const std::string& path) {
    const bool known = std::any_of(kModules.begin(), kModules.end(),
                                   [&](const ModulePath& module) { return module.path == path; });
    return !known && root_of(path) != "neuronxcc" && !root_of(path).empty();
}

void use_of_host_module(const std::string& path) {
    const bool forbidden = std::find(std::begin(kForbiddenModules), std::end(kForbiddenModules),
                                     root_of(path)) != std::end(kForbiddenModules);
    const std::string message = fmt::format("a kernel cannot use the module '{}'", path);
    (forbidden ? rejected("forbidden_api", message) : unsupported("python_feature", message))
        .remedy(
            "use neuronxcc.nki, numpy and math only; put code for the host under "
            "if __name__ == \"__main__\"")
        .raise();
}

std::string_view module_path(ModuleId module) {
    for (const ModulePath& known : kModules)
        if (known.id == module) return known.path;
    switch (module) {
        case ModuleId::kTileSize:
            return "nl.tile_size";
        case ModuleId::kFp32:
            return "nl.fp32";
        case ModuleId::kEngineNames:
            return "nisa.engine";
        case ModuleId::kReduceCmd:
            return "nisa.reduce_cmd";
        case ModuleId::kDgeMode:
            return "nisa.dge_mode";
        case ModuleId::kOobMode:
            return "nisa.oob_mode";
        case ModuleId::kNcVersion:
            return "nisa.nc_version";
        default:
            return "module";
    }
}

std::optional<Value> module_attribute(const ApiTable& api, ModuleId module,
                                      const std::string& name) {
    for (const auto& [known, value] : names_of(module))
        if (known == name) return value;
    if (module == ModuleId::kTyping || module == ModuleId::kOpaque)
        return Value::token(Kind::kOpaque, 0);
    const std::string_view prefix = api_prefix(module);
    if (!prefix.empty()) {
        const int index = api.find(std::string(prefix) + name);
        if (index >= 0) return Value::token(Kind::kApi, index);
    }
    if (module == ModuleId::kNumpy || module == ModuleId::kMath) {
        const std::vector<NumpyEntry>& table = numpy_table();
        for (std::size_t k = 0; k < table.size(); ++k)
            if (table[k].name == name && table[k].in_math == (module == ModuleId::kMath))
                return Value::token(Kind::kNumpy, static_cast<std::int64_t>(k));
    }
    return std::nullopt;
}

std::vector<std::string> module_names(const ApiTable& api, ModuleId module) {
    std::vector<std::string> names;
    for (const auto& [known, value] : names_of(module)) names.emplace_back(known);
    const std::string_view prefix = api_prefix(module);
    if (!prefix.empty())
        for (const ApiEntry& entry : api.entries())
            if (entry.name.starts_with(prefix))
                names.emplace_back(entry.name.substr(prefix.size()));
    if (module == ModuleId::kNumpy || module == ModuleId::kMath)
        for (const NumpyEntry& entry : numpy_table())
            if (entry.in_math == (module == ModuleId::kMath)) names.emplace_back(entry.name);
    return names;
}

std::optional<DType> parse_dtype(std::string_view name) {
    for (int k = 0; k <= static_cast<int>(DType::kBool); ++k)
        if (to_string(static_cast<DType>(k)) == name) return static_cast<DType>(k);
    if (name == "bool_") return DType::kBool;
    return std::nullopt;
}

}  // namespace accelopt::nki::interp
