#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nki/interpreter.h"

namespace accelopt::nki::interp {

/// Carries a finding from deep inside a trace to trace(), which returns it as a value. A finding
/// without a line gets the line of the statement or call being evaluated.
struct TraceFailure {
    Finding finding;
};

/// Builds a finding step by step and throws it.
class Fault {
  public:
    Fault(std::string outcome, std::string code, std::string message);

    Fault& shape(std::vector<std::int64_t> shape);
    Fault& limit(std::int64_t limit);
    Fault& remedy(std::string text);
    Fault& operation(std::string name);
    Fault& at(int line, int column);
    [[noreturn]] void raise();

  private:
    Finding finding_;
};

/// The kernel breaks a rule of the device, or Python would raise.
Fault rejected(std::string code, std::string message);
/// The kernel may be right, but this implementation does not know the construct.
Fault unsupported(std::string code, std::string message);
/// A budget of the trace is spent.
Fault exhausted(std::string code, std::string message);

/// 64-bit arithmetic that refuses to wrap: Python integers are unbounded, ours are not.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_subtract(std::int64_t a, std::int64_t b);
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);

/// "[128, 512]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace accelopt::nki::interp
