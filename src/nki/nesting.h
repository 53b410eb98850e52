#pragma once

#include "nki/failure.h"

namespace accelopt::nki::interp {

/// Deepest native recursion of the evaluator: expressions, statements and calls together. About
/// ten levels a call of a kernel's function; far below what an 8 MiB stack can hold.
inline constexpr int kMaxNesting = 1600;

/// Counts one level of native recursion while it lives.
class NestingGuard {
  public:
    explicit NestingGuard(int& nesting) : nesting_(nesting) {
        if (++nesting_ > kMaxNesting) {
            --nesting_;
            exhausted("recursion", "the kernel nests calls and expressions too deeply")
                .limit(kMaxNesting)
                .raise();
        }
    }
    NestingGuard(const NestingGuard&) = delete;
    NestingGuard& operator=(const NestingGuard&) = delete;
    ~NestingGuard() { --nesting_; }

  private:
    int& nesting_;
};

}  // namespace accelopt::nki::interp
