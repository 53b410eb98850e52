#include "protocol/unit.h"

#include "core/hash.h"
#include "protocol/json_fields.h"

namespace accelopt::protocol {
namespace {

template <typename List, typename Writer>
Json array_of(const List& list, Writer write) {
    Json json = Json::array();
    for (const auto& item : list) json.push_back(write(item));
    return json;
}

template <typename T, typename Reader>
void read_list(const Json& json, const char* key, std::vector<T>& out, Reader reader) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_array()) return;
    for (const auto& item : *it) out.push_back(reader(item));
}

Json json_of(const Repair& r) {
    return Json{{"source", r.source},
                {"verdict", r.verdict},
                {"llm_outcome", to_string(r.llm_outcome)},
                {"reply", r.reply}};
}

Repair repair_from(const Json& json) {
    Repair r;
    read(json, "source", r.source);
    read(json, "verdict", r.verdict);
    read_enum(json, "llm_outcome", r.llm_outcome, parse_llm_outcome);
    read(json, "reply", r.reply);
    return r;
}

Json json_of(const Sample& s) {
    return Json{{"index", s.index},
                {"status", to_string(s.status)},
                {"llm_outcome", to_string(s.llm_outcome)},
                {"reply", s.reply},
                {"source", s.source},
                {"source_hash", s.source_hash},
                {"duplicate_of", s.duplicate_of},
                {"evaluation", s.evaluation ? json_of(*s.evaluation) : Json(nullptr)},
                {"shared_evaluation", s.shared_evaluation},
                {"speedup", number(s.speedup)},
                {"repairs", array_of(s.repairs, [](const auto& r) { return json_of(r); })}};
}

Sample sample_from(const Json& json) {
    Sample s;
    read(json, "index", s.index);
    read_enum(json, "status", s.status, parse_sample_status);
    read_enum(json, "llm_outcome", s.llm_outcome, parse_llm_outcome);
    read(json, "reply", s.reply);
    read(json, "source", s.source);
    read(json, "source_hash", s.source_hash);
    read(json, "duplicate_of", s.duplicate_of);
    if (json.contains("evaluation") && json["evaluation"].is_object()) {
        s.evaluation = reply_from(json["evaluation"]);
    }
    read(json, "shared_evaluation", s.shared_evaluation);
    read(json, "speedup", s.speedup);
    read_list(json, "repairs", s.repairs, repair_from);
    return s;
}

}  // namespace

std::string_view to_string(UnitKind kind) {
    switch (kind) {
        case UnitKind::kBaseline:
            return "baseline";
        case UnitKind::kRewrite:
            return "rewrite";
        case UnitKind::kSummarize:
            return "summarize";
    }
    return "unknown";
}

std::optional<UnitKind> parse_unit_kind(std::string_view text) {
    for (UnitKind kind : {UnitKind::kBaseline, UnitKind::kRewrite, UnitKind::kSummarize}) {
        if (to_string(kind) == text) return kind;
    }
    return std::nullopt;
}

std::string Sample::candidate_id(const Unit& unit, int index) {
    return sha256_hex("candidate/" + unit.id + "/" + std::to_string(index)).substr(0, 16);
}

Json json_of(const Experience& e) {
    return Json{{"id", e.id},
                {"problem", e.problem},
                {"round", e.round},
                {"title", e.title},
                {"text", e.text},
                {"speedup", number(e.speedup)},
                {"positive", e.positive},
                {"slow_source", e.slow_source},
                {"fast_source", e.fast_source}};
}

Experience experience_from(const Json& json) {
    Experience e;
    read(json, "id", e.id);
    read(json, "problem", e.problem);
    read(json, "round", e.round);
    read(json, "title", e.title);
    read(json, "text", e.text);
    read(json, "speedup", e.speedup);
    read(json, "positive", e.positive);
    read(json, "slow_source", e.slow_source);
    read(json, "fast_source", e.fast_source);
    return e;
}

Json json_of(const Candidate& c) {
    return Json{{"id", c.id},
                {"problem", c.problem},
                {"parent_id", c.parent_id},
                {"round", c.round},
                {"plan", c.plan},
                {"sample", c.sample},
                {"source", c.source},
                {"source_hash", c.source_hash},
                {"latency_ms", number(c.latency_ms)},
                {"profile", c.profile ? json_of(*c.profile) : Json(nullptr)}};
}

Candidate candidate_from(const Json& json) {
    Candidate c;
    read(json, "id", c.id);
    read(json, "problem", c.problem);
    read(json, "parent_id", c.parent_id);
    read(json, "round", c.round);
    read(json, "plan", c.plan);
    read(json, "sample", c.sample);
    read(json, "source", c.source);
    read(json, "source_hash", c.source_hash);
    read(json, "latency_ms", c.latency_ms);
    if (json.contains("profile") && json["profile"].is_object()) {
        c.profile = profile_from(json["profile"]);
    }
    return c;
}

std::string to_json(const Experience& experience) { return dump(json_of(experience)); }
Experience parse_experience(std::string_view json) { return experience_from(parse_object(json)); }
std::string to_json(const Candidate& candidate) { return dump(json_of(candidate)); }
Candidate parse_candidate(std::string_view json) { return candidate_from(parse_object(json)); }

std::string to_json(const Unit& u) {
    return dump(
        Json{{"id", u.id},
             {"problem", u.problem},
             {"kind", to_string(u.kind)},
             {"round", u.round},
             {"order", u.order},
             {"candidate", json_of(u.candidate)},
             {"plan", u.plan},
             {"samples", u.samples},
             {"experiences", array_of(u.experiences, [](const auto& e) { return json_of(e); })},
             {"experience", json_of(u.experience)}});
}

Unit parse_unit(std::string_view text) {
    const Json json = parse_object(text);
    Unit u;
    read(json, "id", u.id);
    read(json, "problem", u.problem);
    read_enum(json, "kind", u.kind, parse_unit_kind);
    read(json, "round", u.round);
    read(json, "order", u.order);
    if (json.contains("candidate")) u.candidate = candidate_from(json["candidate"]);
    read(json, "plan", u.plan);
    read(json, "samples", u.samples);
    read_list(json, "experiences", u.experiences, experience_from);
    if (json.contains("experience")) u.experience = experience_from(json["experience"]);
    return u;
}

std::string to_json(const UnitResult& r) {
    return dump(Json{{"unit", r.unit_id},
                     {"problem", r.problem},
                     {"kind", to_string(r.kind)},
                     {"round", r.round},
                     {"order", r.order},
                     {"parent", r.parent_id},
                     {"plan", r.plan},
                     {"lease", r.lease},
                     {"plan_text", r.plan_text},
                     {"plan_outcome", to_string(r.plan_outcome)},
                     {"samples", array_of(r.samples, [](const auto& s) { return json_of(s); })},
                     {"baseline", r.baseline ? json_of(*r.baseline) : Json(nullptr)},
                     {"experience", json_of(r.experience)},
                     {"ledger", array_of(r.ledger, [](const auto& row) { return json_of(row); })},
                     {"physical_evaluations", r.physical_evaluations},
                     {"failure", r.failure}});
}

UnitResult parse_unit_result(std::string_view text) {
    const Json json = parse_object(text);
    UnitResult r;
    read(json, "unit", r.unit_id);
    read(json, "problem", r.problem);
    read_enum(json, "kind", r.kind, parse_unit_kind);
    read(json, "round", r.round);
    read(json, "order", r.order);
    read(json, "parent", r.parent_id);
    read(json, "plan", r.plan);
    read(json, "lease", r.lease);
    read(json, "plan_text", r.plan_text);
    read_enum(json, "plan_outcome", r.plan_outcome, parse_llm_outcome);
    read_list(json, "samples", r.samples, sample_from);
    if (json.contains("baseline") && json["baseline"].is_object()) {
        r.baseline = reply_from(json["baseline"]);
    }
    if (json.contains("experience")) r.experience = experience_from(json["experience"]);
    read_list(json, "ledger", r.ledger, ledger_from);
    read(json, "physical_evaluations", r.physical_evaluations);
    read(json, "failure", r.failure);
    return r;
}

}  // namespace accelopt::protocol
