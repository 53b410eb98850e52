#include <nlohmann/json.hpp>

#include "core/error.h"
#include "store/archive.h"

namespace accelopt::store {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json array_of(const std::vector<T>& items) {
    Json array = Json::array();
    for (const auto& item : items) array.push_back(Json::parse(protocol::to_json(item)));
    return array;
}

template <typename T, typename Parser>
std::vector<T> list_from(const Json& json, const char* key, Parser parse) {
    std::vector<T> items;
    const auto member = json.find(key);
    if (member == json.end()) return items;
    for (const auto& item : *member) items.push_back(parse(item.dump()));
    return items;
}

}  // namespace

std::string to_json(const RoundRow& round) {
    Json json{{"problem", round.problem},
              {"round", round.round},
              {"selected", array_of(round.selected)},
              {"memory", array_of(round.memory)},
              {"rewrites", array_of(round.rewrites)},
              {"baseline", nullptr}};
    if (round.baseline) json["baseline"] = Json::parse(protocol::to_json(*round.baseline));
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RoundRow parse_round(std::string_view text) {
    try {
        const Json json = Json::parse(text);
        RoundRow round;
        round.problem = json.at("problem").get<std::string>();
        round.round = json.at("round").get<int>();
        round.selected =
            list_from<protocol::Candidate>(json, "selected", protocol::parse_candidate);
        round.memory = list_from<protocol::Experience>(json, "memory", protocol::parse_experience);
        round.rewrites =
            list_from<protocol::UnitResult>(json, "rewrites", protocol::parse_unit_result);
        if (json.contains("baseline") && json["baseline"].is_object()) {
            round.baseline = protocol::parse_candidate(json["baseline"].dump());
        }
        return round;
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorSource::kExternal, "bad_json",
                    std::string("a round record is malformed: ") + error.what());
    }
}

}  // namespace accelopt::store
