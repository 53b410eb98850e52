#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nki/program.h"

namespace accelopt::nki::interp {

/// Where execution stands: a node per loop iteration that did something, linked to the iteration
/// around it. Node 0 is the kernel body.
struct IterationNode {
    int parent = -1;
    int depth = 0;
    int affine_depth = 0;    ///< affine_range loops on the path
    int loop = -1;           ///< index into Program::loops
    std::int64_t entry = 0;  ///< which run of the loop
    std::int64_t iteration = 0;
};

enum class LoopKind : std::uint8_t { kRange, kAffine, kSequential, kStatic, kWhile };

/// The stack of running loops and the tree of their iterations.
class LoopTracker {
  public:
    explicit LoopTracker(std::vector<Loop>& loops);

    /// Enters the loop statement `statement` (its identity); returns the depth to name it by.
    int enter(const void* statement, LoopKind kind, const std::string& variable,
              std::int64_t trip_count, int line);
    /// Enters a loop that has been entered before, from the same place.
    void enter_again(int loop) { active_.push_back({loop, ++entries_, -1, -1}); }
    void next_iteration();
    void leave();

    /// The node of the current iteration; made on first use.
    int context();
    /// The node around the running loop at `depth` (of enter()).
    int context_outside(int depth);
    int depth() const { return static_cast<int>(active_.size()); }
    /// The iteration (from 0) of the running loop at `depth`.
    std::int64_t iteration(int depth) const { return active_[depth - 1].iteration; }
    /// Index into Program::loops of the innermost running loop, or -1.
    int innermost_loop() const { return active_.empty() ? -1 : active_.back().loop; }

    const IterationNode& node(int index) const { return nodes_[index]; }
    LoopKind kind_of(int loop) const { return kinds_[loop]; }

    /// The loop (index into Program::loops) whose different iterations `a` and `b` lie in, when it
    /// is the outermost loop that separates them; -1 when one iteration encloses both.
    int separating_loop(int a, int b) const;
    /// True when an affine_range loop runs between `outer` (an ancestor) and `inner`.
    bool affine_between(int outer, int inner) const {
        return nodes_[inner].affine_depth > nodes_[outer].affine_depth;
    }
    /// The outermost loop that `context` lies in and the current position does not; -1 when the
    /// context is visible. Loops unrolled by Python (static_range, while) do not end a scope.
    int ended_scope(int context);

  private:
    struct Active {
        int loop = -1;
        std::int64_t entry = 0;
        std::int64_t iteration = -1;
        int node = -1;
    };
    struct Key {
        const void* statement;
        int parent;
        std::int64_t trip_count;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };

    std::vector<Loop>& loops_;
    std::vector<LoopKind> kinds_;
    std::vector<Active> active_;
    std::vector<IterationNode> nodes_;
    std::unordered_map<Key, int, KeyHash> known_;
    std::int64_t entries_ = 0;
};

}  // namespace accelopt::nki::interp
