#include "core/clock.h"

#include <ctime>
#include <thread>

namespace accelopt {
namespace {

class SystemClock : public Clock {
  public:
    double monotonic_s() const override {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }
    double unix_s() const override {
        return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    }
    void sleep(double seconds) override {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
};

}  // namespace

Clock& system_clock() {
    static SystemClock clock;
    return clock;
}

std::string format_utc(double unix_s) {
    const auto seconds = static_cast<std::time_t>(unix_s);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

}  // namespace accelopt
