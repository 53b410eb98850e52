#include "core/secret.h"

#include <string_view>

namespace accelopt {

std::string Secret::scrub(std::string message) const {
    if (text_.empty()) return message;
    static constexpr std::string_view kMask = "[secret]";
    // The search goes on behind the mask: the secret may be part of it ("secret").
    for (auto at = message.find(text_); at != std::string::npos;
         at = message.find(text_, at + kMask.size())) {
        message.replace(at, text_.size(), kMask);
    }
    return message;
}

}  // namespace accelopt
