#include "core/secret.h"

namespace accelopt {

std::string Secret::scrub(std::string message) const {
    if (text_.empty()) return message;
    for (auto at = message.find(text_); at != std::string::npos; at = message.find(text_, at)) {
        message.replace(at, text_.size(), "[secret]");
    }
    return message;
}

}  // namespace accelopt
