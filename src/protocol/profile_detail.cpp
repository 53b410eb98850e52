#include "protocol/profile_detail.h"

#include "protocol/json_fields.h"
#include "protocol/profile_members.h"

namespace accelopt::protocol {
namespace {

Json value_of(double value) { return number(value); }
Json value_of(const std::optional<double>& value) { return number(value); }
template <typename T>
Json value_of(const T& value) {
    return Json(value);
}

template <typename T>
Json object_of(const T& item) {
    Json json = Json::object();
    visit_members(item, [&](const char* name, const auto& value) { json[name] = value_of(value); });
    return json;
}

template <typename T>
T item_from(const Json& json) {
    T item;
    visit_members(item, [&](const char* name, auto& value) { read(json, name, value); });
    return item;
}

template <typename T>
Json list_of(const std::vector<T>& items) {
    Json list = Json::array();
    for (const T& item : items) list.push_back(object_of(item));
    return list;
}

template <typename T>
void read_list(const Json& json, const char* key, std::vector<T>& out) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null()) return;
    if (!it->is_array()) {
        throw Error(ErrorSource::kExternal, "bad_json",
                    std::string("member \"") + key + "\" must be a list");
    }
    for (const Json& item : *it) out.push_back(item_from<T>(item));
}

template <typename T>
void read_object(const Json& json, const char* key, std::optional<T>& out) {
    const auto it = json.find(key);
    if (it != json.end() && it->is_object()) out = item_from<T>(*it);
}

template <typename T>
Json object_or_null(const std::optional<T>& item) {
    return item ? object_of(*item) : Json(nullptr);
}

}  // namespace

void add_detail(Json& json, const std::optional<ProfileDetail>& detail) {
    if (!detail) {
        for (const char* key : {"roofline", "lines", "critical_path", "tensors", "occupancy"}) {
            json[key] = nullptr;
        }
        return;
    }
    json["roofline"] = object_or_null(detail->roofline);
    json["lines"] = list_of(detail->lines);
    json["lines_left_out"] = detail->lines_left_out;
    json["critical_path"] = list_of(detail->critical_path);
    json["critical_parts_left_out"] = detail->critical_parts_left_out;
    json["critical_left_out_ms"] = number(detail->critical_left_out_ms);
    json["tensors"] = list_of(detail->tensors);
    json["tensors_left_out"] = detail->tensors_left_out;
    json["occupancy"] = {{"sbuf", object_or_null(detail->sbuf)},
                         {"psum", object_or_null(detail->psum)}};
}

std::optional<ProfileDetail> detail_from(const Json& json) {
    const auto lines = json.find("lines");
    if (lines == json.end() || lines->is_null()) return std::nullopt;
    ProfileDetail detail;
    read_object(json, "roofline", detail.roofline);
    read_list(json, "lines", detail.lines);
    read(json, "lines_left_out", detail.lines_left_out);
    read_list(json, "critical_path", detail.critical_path);
    read(json, "critical_parts_left_out", detail.critical_parts_left_out);
    read(json, "critical_left_out_ms", detail.critical_left_out_ms);
    read_list(json, "tensors", detail.tensors);
    read(json, "tensors_left_out", detail.tensors_left_out);
    const auto occupancy = json.find("occupancy");
    if (occupancy != json.end() && occupancy->is_object()) {
        read_object(*occupancy, "sbuf", detail.sbuf);
        read_object(*occupancy, "psum", detail.psum);
    }
    return detail;
}

}  // namespace accelopt::protocol
