#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nki/chunked.h"

/// What the front end makes of a kernel: a straight list of operations on strided views, with all
/// control flow executed and all indices resolved. The machine (trainium) runs and times it; the
/// same program serves every seed, since NKI kernels cannot branch on tensor values.
namespace accelopt::nki {

enum class DType : std::uint8_t {
    kFloat32,
    kBFloat16,
    kFloat16,
    kTFloat32,
    kFloat8E4M3,
    kFloat8E5M2,
    kInt8,
    kInt16,
    kInt32,
    kUInt8,
    kUInt16,
    kUInt32,
    kBool
};
/// Bytes per element.
int size_of(DType dtype);
std::string_view to_string(DType dtype);

enum class Buffer : std::uint8_t { kHbm, kSbuf, kPsum };
std::string_view to_string(Buffer buffer);

using TensorId = std::int32_t;

enum class TensorRole : std::uint8_t {
    kInput,     ///< HBM argument, read-only; `argument` is its position
    kOutput,    ///< HBM tensor that the kernel returns
    kScratch,   ///< HBM tensor that is not returned
    kConstant,  ///< HBM constant known at trace time; `constant_data` holds float32 values
    kOnChip     ///< SBUF or PSUM
};

/// A tensor. On-chip tensors are [block dims..., partitions, free dims...]: each block is one tile,
/// stored as its own row-major [partitions][free] array. HBM tensors have one block, row-major.
struct Tensor {
    TensorId id = -1;
    std::string name;  ///< variable or name= argument, for messages
    Buffer buffer = Buffer::kSbuf;
    TensorRole role = TensorRole::kOnChip;
    DType dtype = DType::kFloat32;
    std::vector<std::int64_t> shape;  ///< full shape
    int partition_axis = 0;           ///< index of the partition dimension; 0 for HBM tensors
    std::int64_t blocks = 1;          ///< product of the dims left of partition_axis
    std::int64_t partitions = 1;      ///< shape[partition_axis]; for HBM shape[0]
    std::int64_t free_elements = 1;   ///< product of the dims right of partition_axis
    /// Position among the tensor arguments of an input. An output with an argument is a mutable
    /// parameter: it starts with the contents of that argument.
    int argument = -1;
    int site = -1;  ///< the source expression that allocates it (rotation)
    int line = 0;
    std::vector<float> constant_data;
    /// Direct allocation: where every block lies. Empty: the compiler allocates.
    struct Placement {
        int partition = 0;      ///< first physical partition
        std::int64_t byte = 0;  ///< first byte within each partition; PSUM: over all banks
    };
    std::vector<Placement> placements;

    bool is_mutable_parameter() const { return role == TensorRole::kOutput && argument >= 0; }
};

/// A whole number of 32 bits that reads as one of 64, so that products of several do not wrap: an
/// operation holds dozens of them, and a program many operations. The front end refuses what does
/// not fit; anything else that stores such a number is Error(kInternal).
class Extent {
  public:
    constexpr Extent() = default;
    // Implicit both ways: it stands for a std::int64_t.
    constexpr Extent(std::int64_t value) : value_(static_cast<std::int32_t>(value)) {
        if (value_ != value) overflow(value);
    }
    constexpr operator std::int64_t() const { return value_; }
    Extent& operator+=(std::int64_t n) { return *this = value_ + n; }
    Extent& operator-=(std::int64_t n) { return *this = value_ - n; }
    Extent& operator*=(std::int64_t n) { return *this = value_ * n; }
    Extent& operator/=(std::int64_t n) { return *this = value_ / n; }
    static constexpr bool fits(std::int64_t value) {
        return value == static_cast<std::int32_t>(value);
    }

  private:
    [[noreturn]] static void overflow(std::int64_t value);
    std::int32_t value_ = 0;
};

/// One dimension of a view: element stride (0 = broadcast, negative allowed) and count.
struct Dim {
    Extent stride = 0;
    Extent count = 1;
    bool operator==(const Dim& other) const {
        return std::int64_t{stride} == other.stride && std::int64_t{count} == other.count;
    }
};

inline constexpr int kMaxDims = 6;

/// A strided window into one tile (or one HBM tensor). Element (i0, i1, ...) lives at
/// offset + sum(dims[k].stride * i_k), counted in elements from the start of the block.
/// On-chip: dims[0] is the partition dimension and its stride is free_elements (or 0 when it has
/// one partition); a [P, 1] vector operand has dims {P, 1}. All views of one operation have the
/// same rank, and the same counts except where an opcode says otherwise (matmul, reduce,
/// transpose, vector operands whose free counts are 1).
struct View {
    TensorId tensor = -1;
    int rank = 0;
    std::int64_t block = 0;
    std::int64_t offset = 0;
    std::array<Dim, kMaxDims> dims{};

    std::int64_t partitions() const { return rank > 0 ? std::int64_t{dims[0].count} : 1; }
    std::int64_t free_count() const {
        std::int64_t n = 1;
        for (int d = 1; d < rank; ++d) n *= dims[d].count;
        return n;
    }
    std::int64_t count() const { return partitions() * free_count(); }
    bool operator==(const View& other) const {
        return tensor == other.tensor && block == other.block && offset == other.offset &&
               rank == other.rank && dims == other.dims;
    }
};

/// One conjunct of a mask that is not a box (the front end cuts views down to a mask's box, and
/// drops operations with nothing left): the element at index i is active when
/// constant + sum(coefficients[d] * i_d) >= 0, over the iteration space of the operation
/// (the destination's dims; for matmul and reduce the first source's dims).
struct MaskTerm {
    std::int64_t constant = 0;
    std::array<std::int64_t, kMaxDims> coefficients{};
};

enum class Opcode : std::uint8_t {
    kLoad,          ///< HBM -> SBUF DMA; casts
    kStore,         ///< SBUF/PSUM -> HBM DMA; casts
    kDmaCopy,       ///< HBM -> HBM, SBUF -> SBUF DMA
    kMemset,        ///< dst = immediate; `implicit` for nl.zeros in PSUM (no instruction)
    kIota,          ///< dst[i] = immediate + sum(iota[d] * i_d)
    kCopy,          ///< dst = src
    kActivation,    ///< dst = function(src * scale + bias); scale immediate or [P,1]; bias [P,1]
    kTensorScalar,  ///< dst = (src op0 operand0) op1 operand1; operands immediate or [P,1]
    kTensorTensor,  ///< dst = a op0 b
    kScalarTensorTensor,  ///< dst = (a op0 operand0) op1 b
    kReciprocal,          ///< dst = 1 / src
    kReduce,              ///< dst[P, kept] = reduce_op over the free axes in `axes` of src
    kScan,                ///< dst = running (a op0 previous) op1 b along the free axis
    kSelect,              ///< dst = predicate ? a : b
    kTranspose,  ///< PE transpose: dst[F, P] = src[P, F], through a matmul with the identity
    kMatmul,     ///< dst[M, N] (+)= stationary[K, M]^T moving[K, N]
    kPartitionBroadcast,  ///< dst[P, F] = src[1, F]: a ones-matmul per 512 columns plus copies

    // From here on the operands have shapes of their own; each view is a space by itself.
    kGather,           ///< dst = src[0] at indices src[1..] known at run time (Extra::dynamic)
    kScatter,          ///< dst at indices src[1..] = src[0], or += with op0 = kAdd
    kTake,             ///< dst[P, K] = src[0][P, src[1][P, K]]: free dims flattened
    kLocalGather,      ///< the same with the indices shared by 16 partitions (nisa.local_gather)
    kShuffle,          ///< dst[p] = src[0][pattern[p % 32]] within each 32 partitions
    kPartitionReduce,  ///< dst[1, F] = op0 over the partitions of src[0]
    kBnStats,          ///< dst[P, 6] = count, mean, variance * count of even, of odd elements
    kBnAggr,           ///< dst[P, 2] = mean, variance from triples as kBnStats makes them
    kMax8,             ///< dst[P, 8] = the largest eight, in descending order
    kFindIndex8,       ///< dst[P, 8] = first position in src[0] of each of src[1][P, 8]
    kMatchIndex8,      ///< the same, but every match is replaced by operand0 at once
    kMatchReplace8,    ///< dst = src[0] with the matches of src[1][P, 8] replaced by operand0
    kSequenceBounds,   ///< dst[1, 2, N] = start and end of the segment of each of src[0][1, N]

    // Elementwise again, with the position of an element (immediate + sum(iota[d] * i_d)).
    kRangeSelect,  ///< dst = position op0 src[1] and position op1 src[2] ? src[0] : operand1;
                   ///< src[1] and src[2] are [P, 1]
    kRandom,       ///< dst = uniform in [0, 1), from Extra::seed, Extra::draw and the position
    kDropout       ///< dst = random < operand1 ? 0 : src[0]
};
/// True for the opcodes whose operands do not share one iteration space.
constexpr bool has_own_spaces(Opcode opcode) {
    return opcode >= Opcode::kGather && opcode <= Opcode::kSequenceBounds;
}
std::string_view to_string(Opcode opcode);

enum class AluOp : std::uint8_t {
    kNone,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kMax,
    kMin,
    kPower,
    kMod,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kLogicalAnd,
    kLogicalOr,
    kBitwiseAnd,
    kBitwiseOr,
    kBitwiseXor,
    kShiftLeft,
    kShiftRight,
    kAbsMax,
    kBypass,
    kLogicalXor,
    kFmod,  ///< remainder with the sign of the dividend
    kRsqrt  ///< 1 / sqrt(first operand)
};
std::string_view to_string(AluOp op);

enum class ActFunction : std::uint8_t {
    kCopy,
    kExp,
    kLog,
    kSin,
    kCos,
    kTan,
    kArctan,
    kTanh,
    kErf,
    kErfDx,
    kSigmoid,
    kRelu,
    kGelu,
    kGeluDx,
    kGeluApproxTanh,
    kSilu,
    kSiluDx,
    kMish,
    kSoftplus,
    kSqrt,
    kRsqrt,
    kReciprocal,
    kSquare,
    kAbs,
    kSign,
    kFloor,
    kCeil,
    kTrunc,
    kInvert,
    kLogicalNot,
    kGeluApproxSigmoid
};
std::string_view to_string(ActFunction function);

enum class Engine : std::uint8_t { kAuto, kTensor, kVector, kScalar, kGpSimd, kDma };
std::string_view to_string(Engine engine);

/// A view that most operations do not have: a pointer's size until it is set. Copies are deep.
class OptionalView {
  public:
    OptionalView() = default;
    OptionalView(const OptionalView& other)
        : view_(other.view_ ? std::make_unique<View>(*other.view_) : nullptr) {}
    OptionalView(OptionalView&&) noexcept = default;
    OptionalView& operator=(OptionalView other) noexcept {
        view_ = std::move(other.view_);
        return *this;
    }
    OptionalView& operator=(const View& view) {
        view_ = std::make_unique<View>(view);
        return *this;
    }
    ~OptionalView() = default;
    /// The view; an empty one when it was never set.
    const View& get() const { return view_ ? *view_ : kNone; }
    operator const View&() const { return get(); }
    const View& operator*() const { return get(); }
    const View* operator->() const { return &get(); }
    /// The view, to change it.
    View& edit() {
        if (!view_) view_ = std::make_unique<View>();
        return *view_;
    }

  private:
    static const View kNone;
    std::unique_ptr<View> view_;
};

/// A scalar operand: an immediate, or a [P, 1] view when `vector` is set.
struct ScalarOperand {
    double immediate = 0;
    bool vector = false;
    OptionalView view;
};

/// What few operations need.
struct Extra {
    /// kGather, kScatter: one axis that is indexed at run time. The element of an operation at
    /// index i lies at `offset` + sum(stride[d] * i_d) + sum(index_k(i) * dynamic[k].stride), where
    /// index_k is `scale` times the value read; index_k(i) + [low, high] must be in [0, size).
    struct Dynamic {
        std::int64_t stride = 0;
        std::int64_t scale = 1;
        std::int64_t size = 0;
        std::int64_t low = 0;
        std::int64_t high = 0;
    };
    std::vector<Dynamic> dynamic;  ///< the k-th has its index in src[1 + k]
    std::int64_t offset = 0;
    std::array<std::int64_t, kMaxDims> stride{};
    bool skip_out_of_bounds = false;         ///< else such an index ends the kernel
    std::int64_t elements_per_index = 1;     ///< kLocalGather
    std::int64_t valid_indices = 0;          ///< kLocalGather: of each 16 partitions
    std::uint64_t seed = 0;                  ///< kRandom, kDropout
    std::uint64_t draw = 0;                  ///< kRandom, kDropout: number of the call
    std::array<std::uint8_t, 32> pattern{};  ///< kShuffle: 255 leaves a partition alone
};

/// The loop an operation stands in, innermost last, is a path into Program::loops.
struct Loop {
    int parent = -1;  ///< index into Program::loops; -1 = outermost
    std::string variable;
    std::string kind;  ///< affine_range, sequential_range, static_range, range, while
    std::int64_t trip_count = 0;
    int line = 0;
};

/// One iteration of a loop that did something: the operations [first, end).
struct LoopIteration {
    std::int32_t loop = -1;  ///< index into Program::loops
    std::int32_t run = 0;    ///< which run of a loop, over all loops
    std::int32_t first = 0;
    std::int32_t end = 0;
};

/// One operation. Which members count follows from the opcode.
struct Operation {
    Opcode opcode = Opcode::kCopy;
    Engine engine = Engine::kAuto;  ///< as asked for in the source; kAuto = compiler's choice
    ActFunction function = ActFunction::kCopy;
    AluOp op0 = AluOp::kNone;  ///< also the reduce operation
    AluOp op1 = AluOp::kNone;
    bool reverse0 = false;  ///< operand0 op0 src instead of src op0 operand0
    bool reverse1 = false;
    bool accumulate = false;  ///< matmul: add to dst; kGather: keep dst where it skips
    bool negate = false;      ///< reduce: negate the result
    bool stationary_onezero = false;
    bool moving_onezero = false;
    bool implicit = false;            ///< made by the front end (nl.matmul's transpose, zeros)
    std::uint8_t axes = 0;            ///< kReduce: bit d set = axis d is reduced
    std::uint8_t sources = 0;         ///< how many of `src` count
    std::int64_t masked_columns = 0;  ///< kMatmul: moving columns that a mask cut off the views;
                                      ///< the PE array streams them all the same
    int line = 0;
    int column = 0;
    int loop = -1;   ///< innermost enclosing loop; -1 = none
    int api = -1;    ///< index into Program::api_names: "nisa.activation", ...
    int extra = -1;  ///< index into Program::extras; -1 = none
    View dst;
    std::array<View, 3> src;
    ScalarOperand scale;  ///< kActivation
    ScalarOperand bias;   ///< kActivation; immediate 0 when absent
    ScalarOperand operand0;
    ScalarOperand operand1;
    std::array<Extent, kMaxDims> iota{};
    std::vector<MaskTerm> mask;  ///< empty = all active
};

/// The traced kernel.
struct Program {
    Chunked<Tensor, 64> tensors;    ///< indexed by TensorId
    Chunked<Operation> operations;  ///< in program order
    std::vector<Loop> loops;
    std::vector<LoopIteration> iterations;  ///< each before those inside it; not of a launch's grid
    std::vector<Extra> extras;
    std::vector<std::string> api_names;
    std::vector<TensorId> outputs;  ///< what the kernel returns, in order
    std::int64_t steps = 0;         ///< interpreter steps spent
    std::int64_t replayed = 0;      ///< operations that replaying loops made
};

}  // namespace accelopt::nki
