#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelopt {

/// Returns the candidate nearest to `word` by edit distance, or "" when none is close enough to
/// be a likely misspelling (distance > max(2, length/3)). Used by every "did you mean" message.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// Splits at every `separator`; "a,,b" gives three parts; "" gives none.
std::vector<std::string> split(std::string_view text, char separator);

/// Joins the parts with `separator` between them.
std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// Reads a whole file; throws Error(kUser, "file") with the path and the reason.
std::string read_file(const std::string& path);

/// Writes a file atomically: a temporary sibling, fsync, rename, fsync of the folder.
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace accelopt
