#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelopt::config {

/// A strict view of one YAML mapping. Every key that is read is remembered; `finish` throws for
/// any key that was never read, with the nearest known key as a suggestion. All errors are
/// Error(kConfig, ...) whose message starts with "file:line: ". Duplicate keys are errors at load.
/// yaml-cpp never shows in this interface.
class Section {
  public:
    struct Impl;
    explicit Section(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

    /// "file:line" of the section, or of one of its keys.
    std::string where() const;
    std::string where(const std::string& key) const;
    /// Keys in file order (marks nothing as read).
    std::vector<std::string> keys() const;
    bool has(const std::string& key) const;
    /// True when the key is present and null.
    bool is_null(const std::string& key) const;

    /// Typed scalars. `get_*` require the key; `*_or` return the default when it is absent.
    /// A null, a mapping or an unconvertible text is an error that names the expected type.
    std::string get_string(const std::string& key) const;
    std::int64_t get_int(const std::string& key) const;
    double get_double(const std::string& key) const;
    bool get_bool(const std::string& key) const;
    std::string string_or(const std::string& key, const std::string& fallback) const;
    std::int64_t int_or(const std::string& key, std::int64_t fallback) const;
    double double_or(const std::string& key, double fallback) const;
    bool bool_or(const std::string& key, bool fallback) const;
    /// nullopt when absent or null.
    std::optional<std::string> optional_string(const std::string& key) const;
    std::optional<double> optional_double(const std::string& key) const;
    std::optional<std::int64_t> optional_int(const std::string& key) const;

    std::vector<std::string> string_list(const std::string& key) const;
    std::vector<std::int64_t> int_list(const std::string& key) const;
    /// A mapping; `child_or_empty` gives an empty one when the key is absent or null.
    Section child(const std::string& key) const;
    Section child_or_empty(const std::string& key) const;
    /// A list of mappings; empty when the key is absent or null.
    std::vector<Section> children(const std::string& key) const;

    /// Throws unless `value` is one of `allowed`, with a suggestion and file:line of `key`.
    void require_one_of(const std::string& key, const std::string& value,
                        const std::vector<std::string>& allowed) const;
    /// Throws an error at the key with this message.
    [[noreturn]] void fail(const std::string& key, const std::string& message) const;

    /// Throws for every unread key of this section and of the children handed out by it.
    void finish() const;

  private:
    std::shared_ptr<Impl> impl_;
};

/// Loads a YAML file as a mapping. `overrides` are "dotted.key=value" (--set), each an error when
/// its path would replace a mapping by a scalar; a file's `base:` is loaded first (relative to the
/// file), mappings merged key by key, lists replaced; a cycle of bases is an error.
Section load_file(const std::string& path, const std::vector<std::string>& overrides = {});
/// Same for text; `name` stands for the file in messages.
Section load_text(const std::string& text, const std::string& name);

}  // namespace accelopt::config
