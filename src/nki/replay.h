#pragma once

#include <cstdint>
#include <vector>

#include "nki/builder.h"

namespace accelopt::nki::interp {

/// A replayed loop did not end as its earlier iterations foretold; the trace starts again with
/// every iteration interpreted.
struct ReplayMismatch {};

/// Replays the iterations of one loop whose body has a ReplayPlan. When the first two iterations,
/// or the second and the third, made the same tensors, loops and operations apart from the
/// addresses of views, the iterations after them but the last repeat the later of the two, stepping
/// every address by the difference; each goes through the checks and records that depend on where
/// an operation stands (budgets, start partitions, dependencies between iterations) as if it had
/// been interpreted. The last iteration is interpreted and must be what the steps foretell: all
/// that is left to the interpreter's checks alone is monotone in the loop variable (bounds of
/// affine indices, the sign of an index), so that what holds at both ends holds between them.
///
/// Where masks depend on the variable, the last iteration may be cut short by them: the one before
/// it is the last that is foretold. Up to there no mask may leave anything out: the least value of
/// an affine inequality over the elements of an operation is concave in the variable, so that one
/// that is not negative at both ends is not negative between them.
class Replay {
  public:
    /// Loops of fewer iterations are not worth watching.
    static constexpr std::int64_t kFewestTrips = 4;

    Replay(Builder& builder, std::int64_t trips, bool masked)
        : builder_(builder), end_(trips - (masked ? 2 : 1)), masked_(masked) {}
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;
    ~Replay();

    /// True for the interpreted iterations that begin() and end() are to be called around.
    bool watches(std::int64_t iteration) const {
        return iteration <= (ready_ ? 0 : 2) || iteration == end_;
    }
    /// To be called around an interpreted iteration that is watched, after the loop has moved on to
    /// it; `steps` are those that the trace has spent. False when the loop cannot be replayed.
    void begin(std::int64_t iteration, std::int64_t steps);
    [[nodiscard]] bool end(std::int64_t iteration, std::int64_t steps);

    /// True when `iteration` can be repeated instead of interpreted.
    bool repeats(std::int64_t iteration) const { return ready_ && iteration < end_; }
    void repeat(std::int64_t iteration);
    /// Steps that an interpreted iteration spends.
    std::int64_t steps() const { return pattern_.steps; }

  private:
    /// What one iteration made.
    struct Span {
        TraceMark from;
        TraceMark to;
        std::int64_t steps = 0;
        std::int64_t refusals = 0;  ///< of all the trace so far, before and in the iteration
        std::int64_t refusals_at_end = 0;
    };
    /// By how much the addresses of an operation's views grow per iteration.
    struct Steps {
        std::int64_t view[8] = {};
    };

    /// Compares two iterations that follow each other, of which the later one is then repeated.
    bool learn(const Span& first, const Span& second);
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
    /// True when that can be expected of the iteration that ends the replay, the one before
    /// `second` being `first`.
    bool uncut_at_end(const Span& first, const Span& second) const;

    Builder& builder_;
    std::int64_t end_;  ///< the iteration that must be as foretold
    bool masked_;
    bool watching_ = false;
    bool ready_ = false;
    Span before_;   ///< the iteration before the newest watched one
    Span current_;  ///< the newest watched iteration
    Span pattern_;  ///< what is repeated once `ready_`
    std::int64_t pattern_iteration_ = 0;
    std::vector<Steps> steps_;  ///< per operation of `pattern_`
};

}  // namespace accelopt::nki::interp
