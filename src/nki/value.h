#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nki/affine.h"
#include "nki/heap.h"
#include "nki/loops.h"
#include "nki/request.h"
#include "nki/tile.h"

namespace accelopt::nki::interp {

/// What a Value is. Kinds from kString on are heap objects.
enum class Kind : std::uint8_t {
    kUnbound,
    kNone,
    kEllipsis,
    kBool,
    kInt,
    kFloat,
    kDType,    ///< payload: DType
    kBuffer,   ///< payload: BufferToken
    kEngine,   ///< payload: Engine
    kToken,    ///< any other named constant of the NKI or numpy API; payload: token id
    kModule,   ///< payload: ModuleId
    kApi,      ///< payload: index into the API table
    kNumpy,    ///< payload: index into the numpy/math function table
    kBuiltin,  ///< payload: BuiltinId
    kOpaque,   ///< an imported name that only annotations may use
    kString,
    kTuple,
    kList,
    kDict,
    kSet,
    kSlice,
    kRange,
    kFunction,
    kAffine,
    kMask,
    kTile,
    kPending,
    kArray,
    kMethod,
    kAllocation,  ///< a buffer with an address: ncc.sbuf.alloc(...)
    kDynamic,     ///< an index read from a tensor: integers plus a tile
    kPartial      ///< functools.partial
};

const char* kind_name(Kind kind);

enum class BufferToken : std::uint8_t { kSbuf, kPsum, kHbm, kPrivateHbm, kSharedHbm };

/// A value of the traced program: a small immediate, or a counted reference to an object.
class Value {
  public:
    Value() = default;
    Value(const Value& other)
        : kind_(other.kind_),
          partition_(other.partition_),
          marks_(other.marks_),
          typed_(other.typed_),
          loop_(other.loop_) {
        payload_ = other.payload_;
        retain();
    }
    Value(Value&& other) noexcept
        : kind_(other.kind_),
          partition_(other.partition_),
          marks_(other.marks_),
          typed_(other.typed_),
          loop_(other.loop_) {
        payload_ = other.payload_;
        other.kind_ = Kind::kUnbound;
    }
    Value& operator=(Value other) noexcept {
        std::swap(kind_, other.kind_);
        std::swap(partition_, other.partition_);
        std::swap(marks_, other.marks_);
        std::swap(typed_, other.typed_);
        std::swap(loop_, other.loop_);
        std::swap(payload_, other.payload_);
        return *this;
    }
    ~Value() { release(); }

    static Value none() { return Value(Kind::kNone, std::int64_t{0}); }
    static Value boolean(bool value) { return Value(Kind::kBool, std::int64_t{value}); }
    static Value integer(std::int64_t value) { return Value(Kind::kInt, value); }
    static Value number(double value) {
        Value result;
        result.kind_ = Kind::kFloat;
        result.payload_.number = value;
        return result;
    }
    static Value token(Kind kind, std::int64_t id) { return Value(kind, id); }
    template <typename T>
    static Value object(Kind kind, const Ref<T>& object) {
        Value result;
        result.kind_ = kind;
        result.payload_.object = object.get();
        result.retain();
        return result;
    }
    static Value tile(const Ref<Tile>& tile) { return object(Kind::kTile, tile); }

    Kind kind() const { return kind_; }
    bool is(Kind kind) const { return kind_ == kind; }
    bool is_object() const { return kind_ >= Kind::kString; }
    bool is_number() const {
        return kind_ == Kind::kInt || kind_ == Kind::kFloat || kind_ == Kind::kBool;
    }
    bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
    std::int64_t integer() const { return payload_.integer; }
    double number() const {
        return kind_ == Kind::kFloat ? payload_.number : static_cast<double>(payload_.integer);
    }
    template <typename T>
    T& as() const {
        return static_cast<T&>(*payload_.object);
    }
    template <typename T>
    Ref<T> ref() const {
        return Ref<T>(static_cast<T*>(payload_.object));
    }
    const Object* address() const { return is_object() ? payload_.object : nullptr; }

    /// The running loop (its depth, from 1) that this integer is the variable of; 0 = none.
    int loop() const { return loop_; }
    void set_loop(int depth) { loop_ = depth; }
    /// nl.par_dim: this integer marks the partition dimension of a shape.
    bool partition() const { return partition_; }
    void set_partition() { partition_ = true; }

    /// A number that follows from a loop variable of the device or a program id.
    static constexpr std::uint8_t kSymbolic = 1;
    /// A number that is no affine function of what it follows from (// or % of it).
    static constexpr std::uint8_t kNotAffine = 2;
    std::uint8_t marks() const { return marks_; }
    void set_marks(std::uint8_t marks) { marks_ = marks; }
    /// The dtype of a number made by a dtype (np.float16(2)); Python's own numbers have none.
    std::optional<DType> dtype() const {
        if (typed_ == 0) return std::nullopt;
        return static_cast<DType>(typed_ - 1);
    }
    void set_dtype(DType dtype) { typed_ = static_cast<std::uint8_t>(static_cast<int>(dtype) + 1); }

  private:
    Value(Kind kind, std::int64_t integer) : kind_(kind) { payload_.integer = integer; }
    void retain() {
        if (is_object()) ++payload_.object->references;
    }
    void release() {
        if (is_object() && --payload_.object->references == 0)
            payload_.object->heap->destroy(payload_.object);
    }

    Kind kind_ = Kind::kUnbound;
    bool partition_ = false;
    std::uint8_t marks_ = 0;
    std::uint8_t typed_ = 0;
    std::int32_t loop_ = 0;
    union Payload {
        std::int64_t integer;
        double number;
        Object* object;
    } payload_{0};
};

struct String : Object {
    explicit String(std::string value) : text(std::move(value)) {}
    std::string text;
};

/// A tuple or a list; also the items of nl.mgrid (`grid`).
struct Sequence : Container {
    std::vector<Value> items;
    bool grid = false;
    void clear() override { items.clear(); }
};

/// A dict in insertion order; a set uses the keys only.
struct Mapping : Container {
    std::vector<std::pair<Value, Value>> entries;
    void clear() override { entries.clear(); }
};

struct Slice : Object {
    Value start;
    Value stop;
    Value step;
};

struct Range : Object {
    std::int64_t start = 0;
    std::int64_t stop = 0;
    std::int64_t step = 1;
    LoopKind kind = LoopKind::kRange;
    std::int64_t count() const;
};

struct Affine : Object {
    explicit Affine(const AffineExpr& value) : expr(value) {}
    AffineExpr expr;
};

struct Mask : Object {
    explicit Mask(MaskExpr value) : expr(std::move(value)) {}
    MaskExpr expr;
};

/// The result of an API call whose destination its consumer decides.
struct Pending : Object {
    OpRequest request;
    Ref<Tile> done;  ///< once it has been executed
};

/// A host constant (a numpy array of the kernel's trace-time code).
struct HostArray : Object {
    std::vector<std::int64_t> shape;
    DType dtype = DType::kFloat32;
    std::vector<double> values;
};

/// A method looked up on a value, waiting for its call.
struct Method : Object {
    Value self;
    int name = -1;  ///< interned
};

/// A buffer= argument that says where blocks lie.
struct Allocation : Object {
    Buffer buffer = Buffer::kSbuf;
    bool automatic = false;
    Value function;  ///< alloc(func); unbound: the modulo scheme
    std::int64_t base_bank = 0;
    std::int64_t base_address = 0;
    std::int64_t base_partition = 0;
    std::vector<std::int64_t> bank_tiles;
    std::vector<std::int64_t> partition_tiles;
    std::vector<std::int64_t> free_tiles;
};

/// An index that the kernel reads from a tensor: scale * value of the tile + an affine expression.
struct Dynamic : Object {
    Ref<Tile> tile;
    std::int64_t scale = 1;
    AffineExpr offset;
};

/// functools.partial: a callable with some arguments given.
struct Partial : Object {
    Value function;
    std::vector<Value> arguments;
    std::vector<std::pair<int, Value>> keywords;
};

struct FunctionCode;

/// The variables of one function activation.
struct Environment : Container {
    std::vector<Value> slots;
    Ref<Environment> outer;
    void clear() override {
        slots.clear();
        outer = {};
    }
};

struct Function : Container {
    const FunctionCode* code = nullptr;
    std::vector<Value> defaults;  ///< one per parameter; unbound = required
    Ref<Environment> outer;
    bool kernel = false;  ///< decorated with nki.jit or its relatives
    void clear() override {
        defaults.clear();
        outer = {};
    }
};

}  // namespace accelopt::nki::interp
