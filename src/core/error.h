#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace accelopt {

/// Who has to act on an error.
enum class ErrorSource { kUser, kConfig, kExternal, kInternal };

/// Returns the stored spelling of an error source ("user", "config", ...).
std::string_view to_string(ErrorSource source);

/// The one exception type of the project: set-up, I/O and broken invariants.
/// Expected outcomes (a rejected kernel, a refused reply) are values, see Result.
class Error : public std::runtime_error {
  public:
    Error(ErrorSource source, std::string code, const std::string& message, bool retriable = false)
        : std::runtime_error(message),
          source_(source),
          code_(std::move(code)),
          retriable_(retriable) {}

    ErrorSource source() const { return source_; }
    const std::string& code() const { return code_; }
    bool retriable() const { return retriable_; }

  private:
    ErrorSource source_;
    std::string code_;
    bool retriable_;
};

/// Process exit codes, the same for every subcommand and rank (design.md, Command line).
enum class ExitCode : int {
    kOk = 0,
    kUsage = 2,
    kExists = 3,
    kUnitsFailed = 4,
    kBudget = 5,
    kInterrupted = 6,
    kInternal = 70
};

/// Throws an internal Error when `condition` is false; never compiled out.
void require(bool condition, std::string_view what);

}  // namespace accelopt
