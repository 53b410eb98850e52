#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nki/code.h"
#include "nki/value.h"

namespace accelopt::nki::interp {

class Evaluator;
class ApiCall;

/// One function of the NKI 1 API. The parameter list drives argument binding and messages.
struct ApiEntry {
    std::string_view name;        ///< "nl.load"
    std::string_view parameters;  ///< "src, *, mask?, dtype?": * starts keyword-only, ? is optional
    Value (*handler)(ApiCall&);   ///< null: documented, but not supported here
    AluOp alu = AluOp::kNone;     ///< what the function means as an `op=` argument
    std::optional<ActFunction> act;
    Engine engine = Engine::kAuto;
    std::string_view section;  ///< of the NKI documentation
};

/// A parameter list, parsed.
struct ApiParameters {
    struct Parameter {
        std::string name;
        bool keyword_only = false;
        bool optional = false;
    };
    std::vector<Parameter> list;
    int mask = -1;    ///< index of `mask`, or -1
    int engine = -1;  ///< index of `engine`, or -1
    int find(std::string_view name) const;
};

inline constexpr int kMaxApiParameters = 20;

/// All functions of the API; the index of an entry is the payload of a kApi value.
const std::vector<ApiEntry>& api_table();
const ApiParameters& api_parameters(int index);
/// Index of an entry by full name, or -1.
int find_api(std::string_view name);

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
    /// The same, but a lazy broadcast is left as it is.
    Ref<Tile> loose_tile(int k);
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
    /// Rejects an engine that the function does not run on; kAuto is always fine.
    void require_engine(const OpRequest& request, std::initializer_list<Engine> allowed) const;
    /// Rejects bitvec operators on anything but integers, and beside arithmetic ones. `op1` may be
    /// kNone (NKI API Common Fields, "Supported Math Operators for NKI ISA").
    void require_operators(const OpRequest& request, AluOp op0, AluOp op1) const;
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
Value program_id(ApiCall&);
Value num_programs(ApiCall&);
Value program_ndim(ApiCall&);
Value device_print(ApiCall&);
Value decorator(ApiCall&);
Value get_nc_version(ApiCall&);

Value load(ApiCall&);
Value store(ApiCall&);
Value copy(ApiCall&);
Value tensor_copy(ApiCall&);
Value dma_copy(ApiCall&);
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
Value where(ApiCall&);
Value loop_reduce(ApiCall&);
Value static_cast_(ApiCall&);

Value activation(ApiCall&);
Value activation_reduce(ApiCall&);
Value tensor_scalar(ApiCall&);
Value tensor_tensor(ApiCall&);
Value scalar_tensor_tensor(ApiCall&);
Value tensor_tensor_scan(ApiCall&);
Value tensor_reduce(ApiCall&);
Value affine_select(ApiCall&);

Value matmul(ApiCall&);
Value nc_matmul(ApiCall&);
Value nc_transpose(ApiCall&);
Value transpose(ApiCall&);
}  // namespace api

/// Default dtype of an operation on both: a float before an integer, else the narrower of the two
/// that holds the other's values, else a wider one (NKI API Common Fields, "NKI Type Promotion").
DType promote(DType a, DType b);
/// The nearest value of a float dtype, ties to even; beyond its range an infinity.
double round_to(DType dtype, double value);
/// The dtype that a Python number has in a promotion: its own, else uint8, int32 or float32
/// ("Weakly Typed Scalar Type Inference").
DType number_dtype(const Value& number);
bool is_float(DType dtype);
/// An operator on bit patterns: integers only, never through float32.
bool is_bitvec(AluOp op);

}  // namespace accelopt::nki::interp
