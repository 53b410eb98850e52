#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace accelopt::agents {

/// One block of an edit-style reply: lines to find in the kernel, and what they become.
struct Edit {
    std::string search;
    std::string replace;
    int line = 0;  ///< 1-based line of the opening marker
};

/// Finds the complete blocks
///
///     <<<<<<< SEARCH
///     ...
///     =======
///     ...
///     >>>>>>> REPLACE
///
/// in order, within fences or without. Markers stand at the start of a line.
std::vector<Edit> find_edits(std::string_view reply);

/// True when a block is opened and never completed: the reply is cut off.
bool has_open_edit(std::string_view reply);

/// Applies the edits one after the other. The lines to find must stand in the text exactly once,
/// blanks at their ends apart; an empty search is an error. The error says which block fails.
Result<std::string, std::string> apply_edits(const std::string& source,
                                             const std::vector<Edit>& edits);

}  // namespace accelopt::agents
