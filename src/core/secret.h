#pragma once

#include <string>
#include <utility>

namespace accelopt {

/// A value that must never reach a log, a file or a message: it has no stream operator and no
/// fmt formatter, and `reveal` is the only way to the text.
class Secret {
  public:
    Secret() = default;
    explicit Secret(std::string text) : text_(std::move(text)) {}

    bool empty() const { return text_.empty(); }
    const std::string& reveal() const { return text_; }
    /// Returns `message` with every occurrence of the secret replaced by "[secret]".
    std::string scrub(std::string message) const;

  private:
    std::string text_;
};

}  // namespace accelopt
