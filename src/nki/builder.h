#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nki/accesses.h"
#include "nki/interpreter.h"
#include "nki/iteration_space.h"
#include "nki/loops.h"
#include "nki/request.h"

namespace accelopt::nki::interp {

/// What a new tensor is made of.
struct TensorSpec {
    std::vector<std::int64_t> shape;
    int partition_axis = 0;
    DType dtype = DType::kFloat32;
    Buffer buffer = Buffer::kSbuf;
    TensorRole role = TensorRole::kOnChip;
    std::string name;
    int site = -1;
    int line = 0;
    int context = -1;  ///< iteration that owns it; -1 = the current one
};

/// Raises num_partition_mismatch or size_of_dimension_exceed_arch_limit for operands that the PE
/// array cannot multiply.
void check_matmul_shape(const Tile& stationary, const Tile& moving);
/// Raises size_of_dimension_exceed_arch_limit for a tile that `engine` cannot transpose.
void check_transpose_shape(const Tile& source, Engine engine);

/// Where a trace stands.
struct TraceMark {
    std::size_t operations = 0;
    std::size_t tensors = 0;
    std::size_t events = 0;  ///< only while watched
};

/// What a trace does to the program and its loops, one at a time.
struct TraceEvent {
    enum class Kind : std::uint8_t { kOperation, kTensor, kEnter, kIterate, kLeave };
    Kind kind = Kind::kOperation;
    bool associative = false;  ///< kOperation: OpRequest::associative
    int loop = -1;             ///< kEnter: index into Program::loops
};

/// Builds the Program: allocates tensors, turns requests into operations on views, and checks
/// every rule that needs shapes, memories, masks or loops. Knows nothing of Python.
class Builder {
  public:
    Builder(Heap& heap, const TraceLimits& limits);

    /// Allocates a tensor; checks partitions, capacity of one tile and the memory budget.
    TensorId allocate(TensorSpec spec);
    /// The tensor itself, as a tile.
    Ref<Tile> whole(TensorId id);
    /// One block of an on-chip tensor, as a tile of its own.
    Ref<Tile> block(TensorId id, std::int64_t index);

    /// Executes `request` with its result in `destination`.
    void emit(const OpRequest& request, const Ref<Tile>& destination);
    /// Allocates a fresh tile for the result, then executes.
    Ref<Tile> emit_fresh(const OpRequest& request, const std::string& name);
    /// Copies `source` into `destination` (kCopy, or kPartitionBroadcast) under the mask of `like`.
    void copy(const Ref<Tile>& source, const Ref<Tile>& destination, const OpRequest& like);
    /// Makes a lazily broadcast tile real; other tiles are returned as they are.
    Ref<Tile> settle(const Ref<Tile>& tile, const OpRequest& like);

    /// Index of an API name in Program::api_names.
    int api_index(const std::string& name);
    const std::string& api_name(int index) const { return program_.api_names[index]; }

    /// Declares what the kernel returns; checks that it was written to.
    void finish(const std::vector<Ref<Tile>>& outputs);

    LoopTracker& loops() { return loops_; }
    int enter_loop(const void* statement, LoopKind kind, const std::string& variable,
                   std::int64_t trip_count, int line);
    void next_iteration();
    void leave_loop();

    // Replaying loops (Replay). Only what an operation is checked for in append() is checked again
    // when it is repeated: a check that is not monotone in the address of a view belongs there, or
    // into Replay::may_step.
    /// Keeps events from now on, or no longer; calls nest.
    void watch(bool on);
    int watches() const { return watched_; }
    /// Drops the events from the k-th on.
    void forget_events(std::size_t k) { events_.resize(k); }
    TraceMark mark() const {
        return {program_.operations.size(), program_.tensors.size(), events_.size()};
    }
    const TraceEvent& event(std::size_t k) const { return events_[k]; }
    /// Something happened that keeps the loops around it from being replayed.
    void refuse_replay() { ++replay_refusals_; }
    std::int64_t replayed() const { return program_.replayed; }
    std::int64_t replay_refusals() const { return replay_refusals_; }
    /// True for a tensor that repeat_tensor() can make again.
    bool repeatable(TensorId id) const;
    bool holds_identity(TensorId id) const { return states_[id].identity; }
    /// Makes a tensor like one of an earlier iteration.
    void repeat_tensor(TensorId like);
    void repeat_operation(Operation operation, bool associative);
    void repeat_enter(int loop);
    const Tensor& tensor(TensorId id) const { return program_.tensors[id]; }
    void name_tensor(TensorId id, const std::string& name);
    /// The value an SBUF tensor was filled with at creation, when it was.
    void set_fill(TensorId id, double value) { states_[id].fill = value; }
    std::optional<double> fill(TensorId id) const { return states_[id].fill; }
    void set_constant(TensorId id, std::vector<float> values);
    /// The name of the tile's tensor, or "tile".
    const std::string& describe(const Tile& tile) const;
    /// Raises failed_to_infer_tile_from_local_tensor unless the partition dimension comes first.
    void check_tile(const Tile& tile) const {
        if (tile.buffer != Buffer::kHbm && tile.dims[0].tag != AxisTag::kPartition) draft(tile);
    }
    /// True when the tile is known to be an identity matrix.
    bool is_identity(const Tile& tile) const;
    /// Raises local_variable_used_out_of_scope for a tile of an iteration that has ended.
    void check_scope(const Tile& tile);
    /// True when the iteration that made the tile has not ended.
    bool in_scope(const Tile& tile) { return loops_.ended_scope(states_[tile.tensor].context) < 0; }

    Program& program() { return program_; }
    const TraceLimits& limits() const { return limits_; }
    Heap& heap() { return heap_; }

  private:
    struct TensorState {
        int context = 0;
        bool written = false;
        bool identity = false;  ///< holds an identity matrix
        std::optional<double> fill;
    };

    void reduce_result(const OpRequest& request, const Ref<Tile>& result);
    bool loads_identity(const OpRequest& request, const Tile& destination) const;
    void emit_elementwise(const OpRequest& request, const Tile& destination);
    void emit_reduce(const OpRequest& request, const Tile& destination);
    void emit_matmul(const OpRequest& request, const Tile& destination);
    void emit_transpose(const OpRequest& request, const Tile& destination);
    void emit_broadcast(const OpRequest& request, const Tile& destination);

    void run(const OpRequest& request, const Ref<Tile>& destination);
    Draft draft(const Tile& tile) const;
    Operation operation_of(const OpRequest& request) const;
    void mask_space(IterationSpace& space, const OpRequest& request) const;
    View view_of(const Draft& draft, const IterationSpace& space);
    void fill_mask(Operation& operation, const IterationSpace& space);
    void push(Operation& operation, const OpRequest& request);
    void append(Operation operation, bool associative);
    void note(TraceEvent event) {
        if (watched_ > 0) events_.push_back(event);
    }

    void check_memories(const OpRequest& request, const Tile& destination) const;
    void check_engine(const Operation& operation) const;
    void check_start_partition(const View& view) const;
    void check_output(const Tile& destination) const;
    void check_bank(const View& view, const Tile& destination) const;
    void track(const Operation& operation, bool requested_associative);
    void track_read(const View& view, int context, int line);
    [[noreturn]] void dependency(const View& view, const AccessTracker::Conflict& conflict,
                                 bool write) const;
    [[noreturn]] void partition_mismatch(const OpRequest& request, const Tile& destination) const;
    [[noreturn]] void shape_mismatch(const OpRequest& request, const Tile& destination) const;
    void charge_memory(std::int64_t bytes);
    /// Counts what an operation touches; refuses beyond the budget.
    void charge_elements(const Operation& operation);

    Heap& heap_;
    TraceLimits limits_;
    double elements_ = 0;
    Program program_;
    LoopTracker loops_;
    AccessTracker accesses_;
    std::vector<TensorState> states_;
    std::unordered_map<std::string, int> api_indices_;
    std::int64_t memory_ = 0;
    int watched_ = 0;
    std::vector<TraceEvent> events_;
    std::int64_t replay_refusals_ = 0;
};

}  // namespace accelopt::nki::interp
