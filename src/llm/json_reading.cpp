#include "llm/json_reading.h"

#include <cmath>

namespace accelopt::llm {
namespace {

constexpr int kMaxDepth = 64;

struct TooDeep {};

}  // namespace

std::optional<Json> parse_object(std::string_view text) {
    const auto guard = [](int depth, Json::parse_event_t, Json&) {
        if (depth > kMaxDepth) throw TooDeep{};
        return true;
    };
    try {
        Json value = Json::parse(text, guard);
        if (value.is_object()) return value;
    } catch (const Json::exception&) {
    } catch (const TooDeep&) {
    }
    return std::nullopt;
}

const Json* member(const Json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto at = object.find(name);
    return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::string text_member(const Json& object, const char* name) {
    const Json* value = member(object, name);
    return value && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<std::int64_t> count_member(const Json& object, const char* name) {
    const Json* value = member(object, name);
    if (!value || !value->is_number()) return std::nullopt;
    const double number = value->get<double>();
    if (!(number >= 0) || number > 1e15 || number != std::floor(number)) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

std::string one_line(std::string_view text) {
    std::string line;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const char shown = byte < 0x20 || byte == 0x7f ? ' ' : c;
        if (shown == ' ' && (line.empty() || line.back() == ' ')) continue;
        line += shown;
    }
    return line;
}

bool blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace accelopt::llm
