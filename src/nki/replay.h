#pragma once

#include <cstdint>
#include <vector>

#include "nki/builder.h"

namespace accelopt::nki::interp {

/// A replayed loop did not end as its earlier iterations foretold; the trace starts again with
/// every iteration interpreted.
struct ReplayMismatch {};

/// Replays the iterations of one loop whose body has a ReplayPlan. Iterations 0, 1, 2 and the last
/// are interpreted. When 1 and 2 made the same tensors, loops and operations apart from the
/// addresses of views, the iterations in between repeat them, stepping every address by the
/// difference; each goes through the checks and records that depend on where an operation stands
/// (budgets, start partitions, dependencies between iterations) as if it had been interpreted. The
/// last iteration must be what the steps foretell: all that is left to the interpreter's checks
/// alone is monotone in the loop variable (bounds of affine indices, the sign of an index), so that
/// what holds at both ends holds between them.
///
/// Where masks depend on the variable, the last iteration may be cut short by them: the one before
/// it is the last that is foretold. Up to there no mask may leave anything out: the least value of
/// an affine inequality over the elements of an operation is concave in the variable, so that one
/// that is not negative at both ends is not negative between them.
class Replay {
  public:
    /// Loops of fewer iterations are not worth watching.
    static constexpr std::int64_t kFewestTrips = 6;

    Replay(Builder& builder, std::int64_t trips, bool masked)
        : builder_(builder), end_(trips - (masked ? 2 : 1)), masked_(masked) {}
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;
    ~Replay();

    /// True for the interpreted iterations that begin() and end() are to be called around.
    bool watches(std::int64_t iteration) const {
        return iteration == 1 || iteration == 2 || iteration == end_;
    }
    /// To be called around an interpreted iteration that is watched, after the loop has moved on to
    /// it; `steps` are those that the trace has spent. False when the loop cannot be replayed.
    void begin(std::int64_t iteration, std::int64_t steps);
    [[nodiscard]] bool end(std::int64_t iteration, std::int64_t steps);

    /// True when `iteration` can be repeated instead of interpreted.
    bool repeats(std::int64_t iteration) const { return ready_ && iteration < end_; }
    void repeat(std::int64_t iteration);
    /// Steps that an interpreted iteration spends.
    std::int64_t steps() const { return second_.steps; }

  private:
    /// What one iteration made.
    struct Span {
        TraceMark from;
        TraceMark to;
        std::int64_t steps = 0;
    };
    /// By how much the addresses of an operation's views grow per iteration.
    struct Steps {
        std::int64_t view[8] = {};
    };

    bool learn();
    bool same_event(const TraceEvent& a, const TraceEvent& b) const;
    bool same_tensor(TensorId a, TensorId b) const;
    /// True when `b` of span `y` is `a` of span `x` with its addresses moved; tells by how much.
    bool moved(const Operation& a, const Span& x, const Operation& b, const Span& y,
               Steps& steps) const;
    bool moved_view(const View& a, const Span& x, const View& b, const Span& y,
                    std::int64_t& step) const;
    bool may_step(const Operation& operation, const Span& span, const Steps& steps) const;
    std::int64_t address(const View& view) const;
    void move(View& view, std::int64_t by, TensorId fresh) const;
    bool foretold(const Span& last) const;
    /// True when no mask of the span leaves anything out.
    bool uncut(const Span& span) const;
    /// True when that can be expected of the iteration that ends the replay.
    bool uncut_at_end() const;

    Builder& builder_;
    std::int64_t end_;  ///< the iteration that must be as foretold
    bool masked_;
    std::int64_t refusals_ = 0;
    bool watching_ = false;
    bool ready_ = false;
    Span first_;   ///< iteration 1
    Span second_;  ///< iteration 2, which is repeated
    Span last_;
    std::vector<Steps> steps_;  ///< per operation of `second_`
};

}  // namespace accelopt::nki::interp
