#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nki/code.h"
#include "nki/value.h"

namespace accelopt::nki::interp {

class Evaluator;
class ApiCall;

/// How a function behaves, for documentation and prompts: the shape and the default dtype of its
/// result, and what it costs (N elements per partition).
struct ApiRules {
    std::string_view shape;
    std::string_view dtype;
    std::string_view cost;
};

/// One function of the API.
struct ApiEntry {
    std::string_view name;        ///< "nl.load"
    std::string_view parameters;  ///< "src, *, mask?, dtype?": * starts keyword-only, ? is optional
    Value (*handler)(ApiCall&);   ///< null: documented, but not supported here
    std::string_view section;     ///< of the NKI documentation
    ApiRules rules;
    AluOp alu = AluOp::kNone;  ///< what the function means as an `op=` argument
    std::optional<ActFunction> act;
    Engine engine = Engine::kAuto;
};

/// A parameter list, parsed.
struct ApiParameters {
    struct Parameter {
        std::string name;
        bool keyword_only = false;
        bool optional = false;
    };
    std::vector<Parameter> list;
    int find(std::string_view name) const;
};

inline constexpr int kMaxApiParameters = 20;

/// The functions of one version of the language, with their parameters parsed. The index of an
/// entry is the payload of a kApi value.
class ApiTable {
  public:
    ApiTable(std::string version, std::vector<ApiEntry> entries);

    const std::string& version() const { return version_; }
    const std::vector<ApiEntry>& entries() const { return entries_; }
    const ApiEntry& operator[](std::int64_t index) const {
        return entries_[static_cast<std::size_t>(index)];
    }
    const ApiParameters& parameters(std::int64_t index) const {
        return parameters_[static_cast<std::size_t>(index)];
    }
    /// Index of an entry by full name, or -1.
    int find(std::string_view name) const;

  private:
    std::string version_;
    std::vector<ApiEntry> entries_;
    std::vector<ApiParameters> parameters_;
    std::unordered_map<std::string_view, int> index_;
};

/// NKI 1, `neuronxcc.nki`.
const ApiTable& nki1_api();

/// The arguments of one call, bound to the parameters of its entry.
class ApiCall {
  public:
    ApiCall(Evaluator& host, int index);

    Evaluator& host() const { return host_; }
    const ApiEntry& entry() const { return entry_; }
    std::array<Value, kMaxApiParameters>& arguments() { return arguments_; }

    bool has(int k) const;  ///< given and not None
    const Value& operator[](int k) const { return arguments_[k]; }
    /// The parameter by name; rejects a name that the table does not list.
    int at(std::string_view name) const;

    /// The argument as a tile: pending results become tiles, lazy broadcasts are made.
    Ref<Tile> tile(int k);
    /// The same, but a lazy broadcast is left as it is, and so are indices read from tensors when
    /// `dynamic` allows them.
    Ref<Tile> loose_tile(int k, bool dynamic = false);
    std::int64_t integer(int k) const;
    double number(int k) const;
    bool flag(int k, bool otherwise) const;
    std::string text(int k) const;
    DType dtype(int k) const;
    DType dtype(int k, DType otherwise) const { return has(k) ? dtype(k) : otherwise; }
    std::vector<std::int64_t> shape(int k) const;
    AluOp alu(int k) const;
    ActFunction act(int k) const;
    /// A number or a [P, 1] tile.
    ScalarRequest scalar(int k);
    bool is_tile(int k) const;

    /// A request with the source position, API name and `mask` argument of this call filled in.
    OpRequest request(Opcode opcode);
    /// The pending value of a request.
    Value pending(OpRequest request);

    [[noreturn]] void bad_argument(int k, const std::string& expected) const;

  private:
    Evaluator& host_;
    int index_;
    const ApiEntry& entry_;
    const ApiParameters& parameters_;
    std::array<Value, kMaxApiParameters> arguments_;
};

// Handlers, by file.
namespace api {
Value ndarray(ApiCall&);
Value zeros(ApiCall&);
Value ones(ApiCall&);
Value full(ApiCall&);
Value empty_like(ApiCall&);
Value zeros_like(ApiCall&);
Value shared_constant(ApiCall&);
Value shared_identity_matrix(ApiCall&);
Value arange(ApiCall&);
Value ds(ApiCall&);
Value par_dim(ApiCall&);
Value loop_range(ApiCall&);
Value device_print(ApiCall&);
Value decorator(ApiCall&);
Value compiler_decorator(ApiCall&);
Value compiler_scope(ApiCall&);
Value allocation(ApiCall&);
Value force_auto_alloc(ApiCall&);
Value get_nc_version(ApiCall&);
Value finfo(ApiCall&);
Value gemm_grid(ApiCall&);

Value program_id(ApiCall&);
Value num_programs(ApiCall&);
Value program_ndim(ApiCall&);
Value all_reduce(ApiCall&);

Value load(ApiCall&);
Value store(ApiCall&);
Value load_transpose2d(ApiCall&);
Value atomic_rmw(ApiCall&);
Value copy(ApiCall&);
Value tensor_copy(ApiCall&);
Value tensor_copy_dynamic_src(ApiCall&);
Value tensor_copy_dynamic_dst(ApiCall&);
Value dma_copy(ApiCall&);
Value dma_transpose(ApiCall&);
Value broadcast_to(ApiCall&);
Value expand_dims(ApiCall&);
Value memset(ApiCall&);
Value iota(ApiCall&);

Value unary(ApiCall&);
Value negative(ApiCall&);
Value reciprocal(ApiCall&);
Value binary(ApiCall&);
Value reduction(ApiCall&);
Value mean(ApiCall&);
Value var(ApiCall&);
Value all(ApiCall&);
Value softmax(ApiCall&);
Value rms_norm(ApiCall&);
Value where(ApiCall&);
Value loop_reduce(ApiCall&);
Value static_cast_(ApiCall&);

Value rand(ApiCall&);
Value random_seed(ApiCall&);
Value dropout(ApiCall&);
Value isa_dropout(ApiCall&);

Value activation(ApiCall&);
Value activation_reduce(ApiCall&);
Value tensor_scalar(ApiCall&);
Value tensor_scalar_reduce(ApiCall&);
Value tensor_tensor(ApiCall&);
Value scalar_tensor_tensor(ApiCall&);
Value tensor_tensor_scan(ApiCall&);
Value tensor_reduce(ApiCall&);
Value tensor_partition_reduce(ApiCall&);
Value affine_select(ApiCall&);
Value range_select(ApiCall&);
Value select_reduce(ApiCall&);
Value tensor_copy_predicated(ApiCall&);

Value bn_stats(ApiCall&);
Value bn_aggr(ApiCall&);
Value max8(ApiCall&);
Value nc_find_index8(ApiCall&);
Value nc_match_replace8(ApiCall&);
Value nc_stream_shuffle(ApiCall&);
Value local_gather(ApiCall&);
Value gather_flattened(ApiCall&);
Value sequence_bounds(ApiCall&);

Value matmul(ApiCall&);
Value nc_matmul(ApiCall&);
Value nc_transpose(ApiCall&);
Value transpose(ApiCall&);
}  // namespace api

/// Result dtype of two operands (NKI documentation, "NKI Type Promotion"): the float of a float and
/// an integer, the wider of two floats or integers, or a new one that holds the values of both.
DType promote(DType a, DType b);
/// dtype of a number as an operand: its own, else the widest of its kind (uint8 for bool).
DType scalar_dtype(const Value& number);
bool is_float(DType dtype);
bool is_bitwise(AluOp op);
/// True for the 32-bit integer arithmetic that GpSimd computes exactly; other engines go through
/// float32.
bool is_exact_integer(AluOp op, const OpRequest& request);
/// Elements per partition.
std::int64_t free_count(const Tile& tile);

}  // namespace accelopt::nki::interp
