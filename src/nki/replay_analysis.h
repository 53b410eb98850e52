#pragma once

#include <vector>

#include "nki/code.h"

namespace accelopt::nki::interp {

/// What the syntax of a `for` statement says about replaying its iterations.
struct ReplayPlan {
    /// True when every iteration takes the same path and every index is affine in the loop
    /// variable, provided that what only execution shows holds too: see Replay.
    bool possible = false;
    /// Local slots that the body updates in place (+=) without having assigned them: each must
    /// hold a tile when the loop starts.
    std::vector<int> updated;
    /// True when masks of API calls compare indices that depend on the variable. They must leave
    /// nothing out, which Replay sees to for all iterations but the last.
    bool masked = false;
    /// Runs of the loop that turned out not to repeat themselves; after a few it is left alone.
    int failures = 0;
    static constexpr int kMostFailures = 3;
};

/// Proves that the values of a loop's body depend on its variable in no other way than through
/// indices that are affine in it: the variable and what is computed from it by +, - and products
/// with numbers that do not depend on it may be assigned to names, index tiles, bound slices and
/// start nl.ds, be compared by < <= > >= for the mask of an API call, and be named as loop_indices;
/// nothing else. Marks the subscripts whose base must turn out to be a tile.
ReplayPlan analyse_replay(const Step& loop, const Names& names);

}  // namespace accelopt::nki::interp
