#pragma once

// Private to llm: how the adapters read and write JSON. Include it from .cpp files only.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace accelopt::llm {

using Json = nlohmann::json;

/// Parses an object; nullopt for anything else, and for a tree deeper than any honest answer's,
/// which would cost far more memory than its text.
std::optional<Json> parse_object(std::string_view text);

/// The member, or null when it is absent, null, or `object` is no object.
const Json* member(const Json& object, const char* name);
/// The member's text; "" when it is not a text.
std::string text_member(const Json& object, const char* name);
/// The member as a count; nullopt unless it is a whole number, zero or more.
std::optional<std::int64_t> count_member(const Json& object, const char* name);

/// One line of printable text for a ledger row.
std::string one_line(std::string_view text);
bool blank(std::string_view text);

/// Writes JSON on one line; invalid UTF-8 is replaced, never thrown on.
std::string dump(const Json& json);

}  // namespace accelopt::llm
