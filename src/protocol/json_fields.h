#pragma once

// Private to protocol: shared helpers of the JSON readers and writers.

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"
#include "protocol/evaluation.h"
#include "protocol/unit.h"

namespace accelopt::protocol {

using Json = nlohmann::ordered_json;

/// Dumps on one line; invalid UTF-8 from replies is replaced, never thrown on.
inline std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

inline Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
inline Json number(const std::optional<double>& value) {
    return value ? number(*value) : Json(nullptr);
}
inline Json number(const std::optional<std::int64_t>& value) {
    return value ? Json(*value) : Json(nullptr);
}

/// Reads json[key] into `out`; an absent or null member leaves it alone; a mistyped one throws a
/// sentence that names the member.
template <typename T>
void read(const Json& json, const char* key, T& out) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null()) return;
    try {
        out = it->template get<T>();
    } catch (const nlohmann::json::exception&) {
        throw Error(ErrorSource::kExternal, "bad_json",
                    std::string("member \"") + key + "\" has the wrong type");
    }
}
template <typename T>
void read(const Json& json, const char* key, std::optional<T>& out) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null()) return;
    T value{};
    read(json, key, value);
    out = value;
}

/// Reads an enumerator through its parser; an unknown spelling throws.
template <typename E, typename Parser>
void read_enum(const Json& json, const char* key, E& out, Parser parse) {
    std::string text;
    read(json, key, text);
    if (text.empty()) return;
    const auto value = parse(text);
    if (!value) {
        throw Error(ErrorSource::kExternal, "bad_json",
                    std::string("member \"") + key + "\" has the unknown value \"" + text + "\"");
    }
    out = *value;
}

/// Parses text as a JSON object; throws Error(kExternal, "bad_json").
Json parse_object(std::string_view text);

Json json_of(const Profile& profile);
Json json_of(const Diagnostic& diagnostic);
Json json_of(const EvaluationReply& reply);
Json json_of(const LedgerRow& row);
Json json_of(const Experience& experience);
Json json_of(const Candidate& candidate);
Profile profile_from(const Json& json);
/// The members of a profile beyond its figures; null where there are none.
void add_detail(Json& json, const std::optional<ProfileDetail>& detail);
std::optional<ProfileDetail> detail_from(const Json& json);
EvaluationReply reply_from(const Json& json);
LedgerRow ledger_from(const Json& json);
Experience experience_from(const Json& json);
Candidate candidate_from(const Json& json);

}  // namespace accelopt::protocol
