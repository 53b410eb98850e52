#pragma once

#include <string>

#include "core/result.h"

namespace accelopt::eval {

/// The part of a reference.py that says what a kernel must compute: its opening text, forward(),
/// and the functions, constants and imports that forward() uses, each with the comment above it.
/// What else the file holds (the scale, the formula with a term left out) serves to judge kernels
/// and is not for their authors. The error says what is wrong with the text.
Result<std::string, std::string> reference_definition(const std::string& source);

}  // namespace accelopt::eval
