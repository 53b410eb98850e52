#include "core/error.h"

namespace accelopt {

std::string_view to_string(ErrorSource source) {
    switch (source) {
        case ErrorSource::kUser:
            return "user";
        case ErrorSource::kConfig:
            return "config";
        case ErrorSource::kExternal:
            return "external";
        case ErrorSource::kInternal:
            return "internal";
    }
    return "internal";
}

void require(bool condition, std::string_view what) {
    if (!condition) {
        throw Error(ErrorSource::kInternal, "invariant",
                    "internal invariant broken: " + std::string(what));
    }
}

}  // namespace accelopt
