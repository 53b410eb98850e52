#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/result.h"
#include "nki/program.h"
#include "nki/syntax/ast.h"

namespace accelopt::nki {

namespace interp {
class ApiTable;
}

/// A finding of the front end; the caller turns it into a protocol::Diagnostic.
/// `outcome` is "syntax_error", "unsupported", "rejected" or "resource_limit"; `code` is the reason
/// of the frozen table (unknown_api, tensor_access_out_of_bound, steps, ...).
struct Finding {
    std::string outcome;
    std::string code;
    std::string message;
    int line = 0;
    int column = 0;
    std::string operation;
    std::vector<std::vector<std::int64_t>> shapes;
    std::optional<std::int64_t> limit;
    std::string remedy;
};

/// One argument of the kernel: a tensor (shape and dtype) or a Python scalar.
struct TensorArgument {
    std::vector<std::int64_t> shape;
    DType dtype = DType::kFloat32;
};
/// A Python literal as an argument: None (monostate), a number, a string, or a tuple of literals.
struct LiteralArgument {
    std::variant<std::monostate, bool, std::int64_t, double, std::string,
                 std::vector<LiteralArgument>>
        value;
};
using Argument = std::variant<TensorArgument, double, std::int64_t, bool, LiteralArgument>;

/// Budgets of one trace. All count; none is a clock.
struct TraceLimits {
    std::int64_t steps = 200'000'000;  ///< expressions and statements evaluated
    std::int64_t operations = 4'000'000;
    /// Elements that the operations touch: views may repeat an element any number of times, so the
    /// work of one operation has no other bound.
    std::int64_t elements = 20'000'000'000;
    std::int64_t comparisons = 400'000'000;     ///< of accesses of different loop iterations
    std::int64_t memory_bytes = 8'000'000'000;  ///< HBM tensors plus live bookkeeping
    int recursion = 100;
    int partitions = 128;
    std::int64_t sbuf_partition_bytes = 192 * 1024;
    std::int64_t psum_partition_bytes = 16 * 1024;
    std::int64_t psum_bank_bytes = 2 * 1024;
};

struct TraceOptions {
    std::optional<std::string> entry;  ///< function name; nullopt: the one decorated with
                                       ///< nki.jit, else `kernel`, else `optimized_kernel`
    TraceLimits limits;
    /// Replays loop bodies whose iterations differ in offsets only, instead of interpreting each.
    /// The result is the same either way.
    bool replay = true;
    /// The launch grid, kernel[grid]: every instance is traced, in row-major order of program ids,
    /// into the same outputs. Empty: launched without a grid.
    std::vector<std::int64_t> grid;
    const interp::ApiTable* api = nullptr;  ///< the functions kernels may call; null: NKI 1
    int core_version = 2;  ///< NeuronCore generation: 2 = Trainium 1, 3 = Trainium 2
};

/// Interprets a kernel over shapes, without data: runs its Python control flow, resolves every
/// index, checks legality, and returns the program. No file, network, clock or Python object is
/// reachable from a kernel. Two traces of one kernel are identical.
Result<Program, Finding> trace(const Module& module, const std::vector<Argument>& arguments,
                               const TraceOptions& options);

/// Names of all supported API entries ("nl.load", "nisa.activation", ...), sorted: for hints,
/// prompts and documentation.
std::vector<std::string> api_entries();
/// The functions with their parameters, by section, a line per signature: for prompts. Null: NKI 1.
std::string api_list(const interp::ApiTable* api = nullptr);
/// The same as a page of Markdown, with engine, shape, dtype and cost of every function.
std::string api_page(const interp::ApiTable* api = nullptr);

}  // namespace accelopt::nki
