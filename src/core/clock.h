#pragma once

#include <chrono>
#include <string>

namespace accelopt {

/// Time as the program sees it; tests replace it by a virtual clock instead of sleeping.
class Clock {
  public:
    virtual ~Clock() = default;
    /// Returns seconds of a monotonic clock with an arbitrary origin.
    virtual double monotonic_s() const = 0;
    /// Returns seconds since 1970-01-01 UTC.
    virtual double unix_s() const = 0;
    /// Suspends the caller for `seconds`.
    virtual void sleep(double seconds) = 0;
};

/// The machine's own clock.
Clock& system_clock();

/// A clock that stands still unless told otherwise; `sleep` advances it at once.
class VirtualClock : public Clock {
  public:
    double monotonic_s() const override { return now_s_; }
    double unix_s() const override { return now_s_; }
    void sleep(double seconds) override { now_s_ += seconds; }
    void advance(double seconds) { now_s_ += seconds; }

  private:
    double now_s_ = 1'000'000.0;
};

/// Returns `unix_s` as "2026-11-30T14:05:06Z".
std::string format_utc(double unix_s);

}  // namespace accelopt
