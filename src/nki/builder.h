#pragma once

#include <algorithm>
#include <array>
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
    int context = -1;                           ///< iteration that owns it; -1 = the current one
    bool hidden = false;                        ///< registers: no rule of tiles applies
    std::vector<Tensor::Placement> placements;  ///< direct allocation, one per block
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
    std::size_t events = 0;   ///< only while watched
    std::size_t margins = 0;  ///< likewise
};

/// What a trace does to the program and its loops, one at a time.
struct TraceEvent {
    enum class Kind : std::uint8_t { kOperation, kTensor, kEnter, kIterate, kLeave };
    Kind kind = Kind::kOperation;
    AluOp combines = AluOp::kNone;  ///< kOperation: OpRequest::combines
    bool whole = false;             ///< kOperation: has an OpRequest::prefill
    int loop = -1;                  ///< kEnter: index into Program::loops
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

    /// True when a lazy broadcast has been made real by a tile that may still be used.
    bool has_expansion(const Tile& tile) {
        return static_cast<bool>(tile.expanded) && in_scope(*tile.expanded);
    }

    /// Index of an API name in Program::api_names.
    int api_index(const std::string& name);
    const std::string& api_name(int index) const { return program_.api_names[index]; }

    /// Declares what the kernel returns; checks that it was written to.
    void finish(const std::vector<Ref<Tile>>& outputs);
    /// Makes a kernel parameter mutable: an output that starts with what its argument holds.
    void make_mutable(TensorId id) { program_.tensors[id].role = TensorRole::kOutput; }
    /// The tensor that an nl.shared_hbm creation of a program instance stands for: the one that
    /// the first instance made at the same point of its run.
    TensorId share(TensorSpec spec);
    void start_instance() { next_shared_ = 0; }

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
        return {program_.operations.size(), program_.tensors.size(), events_.size(),
                margins_.size()};
    }
    const TraceEvent& event(std::size_t k) const { return events_[k]; }
    /// Keeps what a mask that depends on a loop variable comes to at least: negative when it may
    /// leave something out.
    void note_margin(std::int64_t margin) {
        if (watched_ > 0) margins_.push_back(margin);
    }
    std::int64_t margin(std::size_t k) const { return margins_[k]; }
    /// Something happened that keeps the loops around it from being replayed.
    void refuse_replay() { ++replay_refusals_; }
    std::int64_t replayed() const { return program_.replayed; }
    std::int64_t replay_refusals() const { return replay_refusals_; }
    /// True for a tensor that repeat_tensor() can make again.
    bool repeatable(TensorId id) const;
    bool holds_identity(TensorId id) const { return states_[id].identity; }
    /// Makes a tensor like one of an earlier iteration.
    void repeat_tensor(TensorId like);
    void repeat_operation(Operation operation, const TraceEvent& event);
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
        if (!tile.dynamic.empty()) refuse_dynamic(tile);
        if (tile.buffer != Buffer::kHbm && tile.dims[0].tag != AxisTag::kPartition) draft(tile);
    }
    /// True for the result of a transpose that the kernel did not assign to a tile of its own: the
    /// compiler copies it to SBUF where it is needed there.
    bool is_floating(const Tile& tile) const { return states_[tile.tensor].floating; }
    /// True when the tile is known to be an identity matrix.
    bool is_identity(const Tile& tile) const;
    /// Raises local_variable_used_out_of_scope for a tile of an iteration that has ended.
    void check_scope(const Tile& tile);
    /// Enters and leaves the branch of an `if` that the device decides: tiles made inside end with
    /// it.
    void enter_branch() {
        branches_.push_back(++branch_count_);
        refuse_replay();
    }
    void leave_branch() { branches_.pop_back(); }
    int branch_depth() const { return static_cast<int>(branches_.size()); }
    /// Raises now or when the kernel allocates a tensor directly: such kernels may not do this.
    void forbid_when_allocated(const std::string& code, const std::string& message,
                               const std::string& remedy, const OpRequest& here);
    void forbid_when_allocated(Finding finding);
    /// Says that direct allocation is to be ignored (nki.compiler.force_auto_alloc).
    void ignore_allocations() { ignore_allocations_ = true; }
    bool allocated() const { return allocated_; }
    /// True when the iteration that made the tile has not ended.
    bool in_scope(const Tile& tile) {
        const TensorState& state = states_[tile.tensor];
        const bool open = state.branch == 0 || std::find(branches_.begin(), branches_.end(),
                                                         state.branch) != branches_.end();
        return open && loops_.ended_scope(state.context) < 0;
    }

    Program& program() { return program_; }
    const TraceLimits& limits() const { return limits_; }
    Heap& heap() { return heap_; }

  private:
    struct TensorState {
        int context = 0;
        bool written = false;
        bool identity = false;  ///< holds an identity matrix
        int branch = 0;         ///< branch it was made in
        bool floating = false;  ///< a transpose whose memory the kernel did not choose
        bool hidden = false;    ///< TensorSpec::hidden
        std::int64_t writes = 0;
        bool open = false;  ///< products are added to it, though it was not created with zeros
        std::optional<double> fill;
    };

    /// The accumulation registers of an engine: a hidden tile, or still in the tile that the last
    /// reduction was read out to.
    struct Registers {
        TensorId tensor = -1;
        bool set = false;
        Ref<Tile> copy;
        std::int64_t writes = 0;  ///< to the tensor of `copy` when it was made
    };
    void accumulate(const OpRequest& request, const Ref<Tile>& result);
    Registers& registers_of(const OpRequest& request);
    Ref<Tile> register_tile(const OpRequest& request, std::int64_t partitions);
    Ref<Tile> register_value(const OpRequest& request, std::int64_t partitions);
    void reduce_result(const OpRequest& request, const Ref<Tile>& result, const Ref<Tile>& target);
    bool loads_identity(const OpRequest& request, const Tile& destination) const;
    void emit_elementwise(const OpRequest& request, const Tile& destination);
    void emit_reduce(const OpRequest& request, const Tile& destination);
    void emit_matmul(const OpRequest& request, const Tile& destination);
    void emit_transpose(const OpRequest& request, const Tile& destination);
    void emit_broadcast(const OpRequest& request, const Tile& destination);
    void emit_rows(const OpRequest& request, const Tile& destination);
    void emit_indirect(const OpRequest& request, const Tile& destination);
    View part_of(const Tile& tile, std::int64_t first, std::int64_t count, std::int64_t of);
    View window_of(const Tile& tile);
    void attach_extra(Operation& operation, const OpRequest& request);
    [[noreturn]] void refuse_dynamic(const Tile& tile) const;
    void check_dynamic(const OpRequest& request, const Tile& destination) const;

    void run(const OpRequest& request, const Ref<Tile>& destination);
    Draft draft(const Tile& tile) const;
    Operation operation_of(const OpRequest& request) const;
    void mask_space(IterationSpace& space, const OpRequest& request) const;
    View view_of(const Draft& draft, const IterationSpace& space);
    void fill_mask(Operation& operation, const IterationSpace& space);
    void push(Operation& operation, const OpRequest& request);
    /// `whole`: the instruction processes the whole tile, of which the operation is a part.
    void append(Operation operation, AluOp combines, bool whole);
    void start_groups();
    void refuse_mixed_allocation(const Tensor& automatic);
    void note(TraceEvent event) {
        if (watched_ > 0) events_.push_back(event);
    }

    void check_memories(const OpRequest& request, const Tile& destination) const;
    void check_engine(const Operation& operation, bool whole) const;
    void check_start_partition(const View& view) const;
    void check_output(const Tile& destination) const;
    void check_bank(const View& view, const Tile& destination) const;
    void track(const Operation& operation, AluOp combines);
    void track_read(const View& view, int context, int line);
    [[noreturn]] void dependency(const View& view, const AccessTracker::Conflict& conflict,
                                 bool write) const;
    [[noreturn]] void partition_mismatch(const OpRequest& request, const Tile& destination) const;
    [[noreturn]] void shape_mismatch(const OpRequest& request, const Tile& destination) const;
    void begin_run();
    void end_iteration();
    void charge_memory(std::int64_t bytes);
    /// Counts what an operation touches; refuses beyond the budget.
    void charge_elements(const Operation& operation);
    void place(Tensor& tensor, std::vector<Tensor::Placement> placements);

    /// A run of a loop, and its current iteration in Program::iterations (-1: none yet).
    struct RunningLoop {
        std::int32_t run = 0;
        std::int32_t iteration = -1;
    };

    Heap& heap_;
    TraceLimits limits_;
    double elements_ = 0;
    Program program_;
    LoopTracker loops_;
    std::vector<RunningLoop> running_;
    std::int32_t runs_ = 0;
    AccessTracker accesses_;
    std::vector<TensorState> states_;
    std::unordered_map<std::string, int> api_indices_;
    std::int64_t memory_ = 0;
    int watched_ = 0;
    std::vector<TraceEvent> events_;
    std::vector<std::int64_t> margins_;
    std::int64_t replay_refusals_ = 0;
    std::vector<TensorId> shared_;  ///< nl.shared_hbm tensors, in order of creation
    std::size_t next_shared_ = 0;
    std::vector<int> branches_;  ///< the open ones
    int branch_count_ = 0;
    bool allocated_ = false;
    bool ignore_allocations_ = false;
    std::optional<Finding> forbidden_;    ///< the first thing an allocated kernel must not do
    bool open_groups_ = false;            ///< some TensorState::open
    std::array<Registers, 2> registers_;  ///< of the Scalar and of the Vector Engine
};

}  // namespace accelopt::nki::interp
