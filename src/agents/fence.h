#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelopt::agents {

/// One fenced block of a reply.
struct Fence {
    std::string language;  ///< first word of the info string, lower case; "" when bare
    std::string text;      ///< the lines between, with the fence's own indentation taken off
    int line = 0;          ///< 1-based line of the opening fence
    bool closed = false;   ///< false: the reply ends inside
};

/// True for the languages whose strings hide fences: python, py, python3 and bare.
bool holds_python(const Fence& fence);

/// Finds the fenced blocks of a reply in order. A line of backticks inside a triple-quoted string
/// of a Python block does not close the block.
std::vector<Fence> find_fences(std::string_view reply);

/// Returns `text` between fences for a prompt, with a fence longer than any run of backticks in it.
std::string fenced(const std::string& text, const std::string& language);

}  // namespace accelopt::agents
