#include "protocol/evaluation.h"

#include "protocol/json_fields.h"

namespace accelopt::protocol {
namespace {

/// Calls visit(name, member) for every figure of a profile, in stored order.
template <typename P, typename Visitor>
void visit_figures(P& p, Visitor visit) {
    visit("latency", p.latency);
    visit("hbm_read_bytes", p.hbm_read_bytes);
    visit("hbm_write_bytes", p.hbm_write_bytes);
    visit("psum_read_bytes", p.psum_read_bytes);
    visit("psum_write_bytes", p.psum_write_bytes);
    visit("sbuf_read_bytes", p.sbuf_read_bytes);
    visit("sbuf_write_bytes", p.sbuf_write_bytes);
    visit("spill_reload_bytes", p.spill_reload_bytes);
    visit("spill_save_bytes", p.spill_save_bytes);
    visit("hardware_flops", p.hardware_flops);
    visit("transpose_flops", p.transpose_flops);
    visit("peak_flops_bandwidth_ratio", p.peak_flops_bandwidth_ratio);
    visit("mm_arithmetic_intensity", p.mm_arithmetic_intensity);
    visit("hfu_estimated_percent", p.hfu_estimated_percent);
    visit("tensor_engine_active_time_percent", p.tensor_engine_active_time_percent);
    visit("scalar_engine_active_time_percent", p.scalar_engine_active_time_percent);
    visit("vector_engine_active_time_percent", p.vector_engine_active_time_percent);
    visit("gpsimd_engine_active_time_percent", p.gpsimd_engine_active_time_percent);
    visit("dma_active_time_percent", p.dma_active_time_percent);
    visit("percent_of_peak", p.percent_of_peak);
    visit("lower_bound_ms", p.lower_bound_ms);
    visit("stream_roofline_ms", p.stream_roofline_ms);
    visit("latency_uncertainty", p.latency_uncertainty);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Diagnostic diagnostic_from(const Json& json) {
    Diagnostic d;
    read(json, "code", d.code);
    read(json, "severity", d.severity);
    read(json, "message", d.message);
    read(json, "line", d.line);
    read(json, "column", d.column);
    read(json, "snippet", d.snippet);
    read(json, "operation", d.operation);
    read(json, "shapes", d.shapes);
    read(json, "limit", d.limit);
    read(json, "remedy", d.remedy);
    return d;
}

Json json_of(const Correctness& c) {
    return Json{{"seed", c.seed},
                {"input", c.input},
                {"output", c.output},
                {"rule", c.rule},
                {"rel_l2", number(c.rel_l2)},
                {"max_conditioned", number(c.max_conditioned)},
                {"ok", c.ok}};
}

EvaluationRequest request_from(const Json& json) {
    static const std::vector<std::string> kMembers = {
        "schema", "id",     "problem", "target", "source", "source_sha256", "entry",       "rule",
        "seeds",  "secret", "tiers",   "shape",  "limits", "seed_rule",     "profile_rows"};
    for (const auto& [key, value] : json.items()) {
        if (std::find(kMembers.begin(), kMembers.end(), key) == kMembers.end()) {
            throw Error(ErrorSource::kExternal, "bad_json", "unknown member \"" + key + "\"");
        }
    }
    int schema = 0;
    read(json, "schema", schema);
    if (schema != kSchemaVersion) {
        throw Error(ErrorSource::kExternal, "bad_json",
                    "member \"schema\" must be " + std::to_string(kSchemaVersion));
    }
    EvaluationRequest r;
    read(json, "id", r.id);
    for (const char* key : {"problem", "source"}) {
        if (!json.contains(key)) {
            throw Error(ErrorSource::kExternal, "bad_json",
                        std::string("member \"") + key + "\" is required");
        }
    }
    read(json, "problem", r.problem);
    read(json, "source", r.source);
    read(json, "target", r.target);
    read(json, "entry", r.entry);
    read(json, "rule", r.rule);
    read(json, "seeds", r.seeds);
    read(json, "seed_rule", r.seed_rule);
    read(json, "secret", r.secret);
    read(json, "tiers", r.tiers);
    read(json, "shape", r.shape);
    read(json, "profile_rows", r.profile_rows);
    if (json.contains("limits") && json["limits"].is_object()) {
        read(json["limits"], "steps", r.limits.steps);
        read(json["limits"], "memory_bytes", r.limits.memory_bytes);
        read(json["limits"], "wall_s", r.limits.wall_s);
    }
    return r;
}

}  // namespace

Json parse_object(std::string_view text) {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
        throw Error(ErrorSource::kExternal, "bad_json", "not a JSON object");
    }
    return json;
}

Json json_of(const Profile& profile) {
    Json json = Json::object();
    visit_figures(profile,
                  [&](const char* name, const auto& value) { json[name] = number(value); });
    json["bound"] = text_or_null(profile.bound);
    json["confidence"] = text_or_null(profile.confidence);
    json["confidence_reasons"] = profile.confidence_reasons;
    add_detail(json, profile.detail);
    return json;
}

Profile profile_from(const Json& json) {
    Profile profile;
    visit_figures(profile, [&](const char* name, auto& value) { read(json, name, value); });
    read(json, "bound", profile.bound);
    read(json, "confidence", profile.confidence);
    read(json, "confidence_reasons", profile.confidence_reasons);
    profile.detail = detail_from(json);
    return profile;
}

Json json_of(const Diagnostic& d) {
    return Json{{"code", d.code},           {"severity", d.severity}, {"message", d.message},
                {"line", d.line},           {"column", d.column},     {"snippet", d.snippet},
                {"operation", d.operation}, {"shapes", d.shapes},     {"limit", number(d.limit)},
                {"remedy", d.remedy}};
}

Json json_of(const EvaluationReply& r) {
    const auto profile = [](const std::optional<Profile>& p) {
        return p ? json_of(*p) : Json(nullptr);
    };
    Json diagnostics = Json::array();
    for (const auto& d : r.diagnostics) diagnostics.push_back(json_of(d));
    Json correctness = Json::array();
    for (const auto& c : r.correctness) correctness.push_back(json_of(c));
    Json parts = Json::object();
    for (const auto& [name, seconds] : r.cost.parts) parts[name] = seconds;
    return Json{{"schema", kSchemaVersion},
                {"id", r.id},
                {"problem", r.problem},
                {"target", r.target},
                {"source_sha256", r.source_sha256},
                {"outcome", to_string(r.outcome)},
                {"reason", text_or_null(r.reason)},
                {"tier", text_or_null(r.tier)},
                {"rule", text_or_null(r.rule)},
                {"diagnostics", diagnostics},
                {"correctness", correctness},
                {"profile", profile(r.profile)},
                {"as_written", profile(r.as_written)},
                {"measured", profile(r.measured)},
                {"cost", {{"wall_s", r.cost.wall_s}, {"steps", r.cost.steps}, {"parts_s", parts}}},
                {"versions", {{"accelopt", r.accelopt_version}, {"machine", r.machine}}}};
}

EvaluationReply reply_from(const Json& json) {
    EvaluationReply r;
    if (!json.contains("outcome")) {
        throw Error(ErrorSource::kExternal, "bad_json", "member \"outcome\" is required");
    }
    read(json, "id", r.id);
    read(json, "problem", r.problem);
    read(json, "target", r.target);
    read(json, "source_sha256", r.source_sha256);
    read_enum(json, "outcome", r.outcome, parse_outcome);
    read(json, "reason", r.reason);
    read(json, "tier", r.tier);
    read(json, "rule", r.rule);
    const auto list = [&](const char* key) -> Json {
        const auto it = json.find(key);
        if (it == json.end() || it->is_null()) return Json::array();
        if (!it->is_array()) {
            throw Error(ErrorSource::kExternal, "bad_json",
                        std::string("member \"") + key + "\" must be a list");
        }
        return *it;
    };
    for (const auto& d : list("diagnostics")) r.diagnostics.push_back(diagnostic_from(d));
    for (const auto& item : list("correctness")) {
        Correctness c;
        read(item, "seed", c.seed);
        read(item, "input", c.input);
        read(item, "output", c.output);
        read(item, "rule", c.rule);
        read(item, "rel_l2", c.rel_l2);
        read(item, "max_conditioned", c.max_conditioned);
        read(item, "ok", c.ok);
        r.correctness.push_back(c);
    }
    const auto profile = [&](const char* key, std::optional<Profile>& out) {
        if (json.contains(key) && json[key].is_object()) out = profile_from(json[key]);
    };
    profile("profile", r.profile);
    profile("as_written", r.as_written);
    profile("measured", r.measured);
    if (json.contains("cost") && json["cost"].is_object()) {
        const Json& cost = json["cost"];
        read(cost, "wall_s", r.cost.wall_s);
        read(cost, "steps", r.cost.steps);
        if (cost.contains("parts_s") && cost["parts_s"].is_object()) {
            for (const auto& [name, seconds] : cost["parts_s"].items()) {
                if (seconds.is_number()) r.cost.parts.emplace_back(name, seconds.get<double>());
            }
        }
    }
    if (json.contains("versions") && json["versions"].is_object()) {
        read(json["versions"], "accelopt", r.accelopt_version);
        read(json["versions"], "machine", r.machine);
    }
    return r;
}

std::string to_json(const Profile& profile) { return dump(json_of(profile)); }
std::string to_json(const Diagnostic& diagnostic) { return dump(json_of(diagnostic)); }
std::string to_json(const EvaluationReply& reply) { return dump(json_of(reply)); }

std::string to_json(const EvaluationRequest& r) {
    return dump(Json{{"schema", kSchemaVersion},
                     {"id", r.id},
                     {"problem", r.problem},
                     {"target", r.target},
                     {"source", r.source},
                     {"entry", r.entry ? Json(*r.entry) : Json(nullptr)},
                     {"rule", r.rule},
                     {"seeds", r.seeds},
                     {"seed_rule", r.seed_rule},
                     {"secret", r.secret},
                     {"tiers", r.tiers},
                     {"shape", r.shape},
                     {"profile_rows", r.profile_rows},
                     {"limits",
                      {{"steps", r.limits.steps},
                       {"memory_bytes", r.limits.memory_bytes},
                       {"wall_s", r.limits.wall_s}}}});
}

Result<EvaluationRequest, std::string> parse_evaluation_request(std::string_view line) {
    try {
        return request_from(parse_object(line));
    } catch (const Error& error) {
        return Failure{std::string(error.what())};
    }
}

Result<EvaluationReply, std::string> parse_evaluation_reply(std::string_view line) {
    try {
        return reply_from(parse_object(line));
    } catch (const Error& error) {
        return Failure{std::string(error.what())};
    }
}

}  // namespace accelopt::protocol
