#include "cli/calibrate_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace accelopt::cli {
namespace {

namespace tr = trainium;
using Json = nlohmann::ordered_json;
using tr::Predictor;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }
std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

/// "63 / 62": predicted and measured, in percent of the latency.
std::string active_pair(const tr::CaseError& error,
                        std::optional<double> protocol::Profile::*member) {
    const auto show = [&](const std::optional<double>& value) {
        return value ? fmt::format("{:.0f}", 100 * *value) : std::string("-");
    };
    return show(error.predicted.*member) + " / " + show(error.measured.*member);
}

std::string kernel_table(const std::vector<tr::CaseError>& errors) {
    std::string text = fmt::format("{:<28} {:>11} {:>10} {:>9} {:>10} {:>9} {:>9} {:>9}  {}\n",
                                   "kernel", "measured ms", "predicted", "error", "roofline",
                                   "error", "ACT p/m", "DVE p/m", "confidence");
    for (const tr::CaseError& e : errors) {
        text += fmt::format("{:<28} {:>11.4f} {:>10.4f} {:>9} {:>10.4f} {:>9} {:>9} {:>9}  {}\n",
                            e.name, e.measured_ms(), e.predicted_ms(Predictor::kModel),
                            signed_percent(e.error(Predictor::kModel)),
                            e.predicted_ms(Predictor::kStreamRoofline),
                            signed_percent(e.error(Predictor::kStreamRoofline)),
                            active_pair(e, &protocol::Profile::scalar_engine_active_time_percent),
                            active_pair(e, &protocol::Profile::vector_engine_active_time_percent),
                            e.predicted.confidence);
    }
    return text;
}

std::string summary_line(const std::string& label, const tr::ErrorSummary& s) {
    const auto rate = s.pairs.rate();
    return fmt::format("{:<28} {:>8} {:>8} {:>8} {:<20} {:>8} {:>16} {:>10}\n", label,
                       percent(s.mean), percent(s.median), percent(s.worst),
                       "(" + s.worst_kernel + ")",
                       s.spearman ? fmt::format("{:.3f}", *s.spearman) : "-",
                       rate ? fmt::format("{} of {}", s.pairs.ordered, s.pairs.pairs) : "-",
                       s.active_error ? fmt::format("{:.1f} pts", 100 * *s.active_error) : "-");
}

std::string summary_header() {
    return fmt::format("{:<28} {:>8} {:>8} {:>8} {:<20} {:>8} {:>16} {:>10}\n", "latency error",
                       "mean", "median", "worst", "", "Spearman", "pairs in order", "active");
}

std::string summaries(const std::vector<tr::CaseError>& errors) {
    return summary_header() + summary_line("model", tr::summarise(errors)) +
           summary_line("stream roofline", tr::summarise(errors, Predictor::kStreamRoofline)) +
           summary_line("roofline of compiled stream",
                        tr::summarise(errors, Predictor::kCompiledRoofline));
}

std::string counter_table(const std::vector<tr::CaseError>& errors) {
    std::string text = fmt::format("{:<28} {:>8} {:>8} {:>8} {:>8}\n", "counter", "kernels",
                                   "exact", "<= 5 %", "<= 20 %");
    for (const tr::CounterSummary& c : tr::summarise_counters(errors))
        text += fmt::format("{:<28} {:>8} {:>8} {:>8} {:>8}\n", c.name, c.kernels, c.exact,
                            c.within_5_percent, c.within_20_percent);
    return text;
}

/// Counters that are not exact, kernel by kernel, as predicted over measured.
std::string counter_details(const std::vector<tr::CaseError>& errors) {
    std::string text;
    for (const tr::CaseError& e : errors) {
        std::string line;
        for (const tr::CounterField& counter : tr::kCounterFields) {
            const auto& was = e.measured.*counter.member;
            const auto& is = e.predicted.*counter.member;
            if (!was || !is || *was == *is) continue;
            line += *was == 0 ? fmt::format("  {} {} for 0", counter.name, *is)
                              : fmt::format("  {} {:.3f}", counter.name,
                                            static_cast<double>(*is) / static_cast<double>(*was));
        }
        if (!line.empty()) text += fmt::format("{:<28}{}\n", e.name, line);
    }
    return text.empty() ? text : "counters that are off (predicted / measured)\n" + text;
}

std::string ablation_table(const CalibrationReport& report) {
    const double base = tr::summarise(report.errors).mean;
    std::string text = fmt::format("{:<28} {:>8} {:>9} {:>8} {:<20} {}\n", "without", "mean",
                                   "change", "worst", "", "what it does");
    for (const tr::Ablation& a : report.ablations)
        text += fmt::format("{:<28} {:>8} {:>9} {:>8} {:<20} {}\n", a.mechanism->name,
                            percent(a.summary.mean), signed_percent(a.summary.mean - base),
                            percent(a.summary.worst), "(" + a.summary.worst_kernel + ")",
                            a.mechanism->what);
    return text;
}

std::string refit_text(const RefitReport& refit) {
    const tr::RefitResult& r = refit.result;
    std::string text =
        fmt::format("refit of {} constants: objective {:.5f} -> {:.5f} in {} evaluations, {}\n",
                    r.changes.size(), r.objective_before, r.objective_after, r.evaluations,
                    r.converged ? "converged" : "stopped by --max-evaluations");
    for (std::size_t i = 0; i < refit.changes.size(); ++i) {
        text += fmt::format("-{}: {}  # source: {}\n", refit.before[i].key, refit.before[i].value,
                            refit.before[i].source);
        text += fmt::format("+{}: {}  # source: {}\n", refit.changes[i].key, refit.changes[i].value,
                            refit.changes[i].source);
    }
    std::vector<std::string> stayed;
    std::vector<std::string> unknown;
    for (const tr::FitChange& change : r.changes) {
        if (!change.identified) unknown.push_back(change.key);
        if (change.identified && change.after == change.before) stayed.push_back(change.key);
    }
    if (!stayed.empty()) text += "unchanged: " + join(stayed, ", ") + "\n";
    if (!unknown.empty())
        text += "not identified (no kernel reacts to them): " + join(unknown, ", ") + "\n";
    text += "after the refit, in-sample:\n" + summaries(refit.errors);
    return text;
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json case_json(const tr::CaseError& e) {
    Json json = {{"kernel", e.name},
                 {"measured_ms", e.measured_ms()},
                 {"predicted_ms", e.predicted_ms(Predictor::kModel)},
                 {"error", e.error(Predictor::kModel)},
                 {"stream_roofline_ms", e.predicted_ms(Predictor::kStreamRoofline)},
                 {"stream_roofline_error", e.error(Predictor::kStreamRoofline)},
                 {"compiled_roofline_ms", e.predicted_ms(Predictor::kCompiledRoofline)},
                 {"active_error", optional_json(e.active_error())},
                 {"confidence", e.predicted.confidence}};
    for (const tr::CounterField& counter : tr::kCounterFields)
        json["counters"][std::string(counter.name)] = {
            {"measured", optional_json(e.measured.*counter.member)},
            {"predicted", optional_json(e.predicted.*counter.member)}};
    for (const tr::EngineField& engine : tr::kEngineFields)
        json["active"][std::string(engine.name)] = {
            {"measured", optional_json(e.measured.*engine.member)},
            {"predicted", optional_json(e.predicted.*engine.member)}};
    return json;
}

Json summary_json(const tr::ErrorSummary& s) {
    return {{"kernels", s.kernels},
            {"mean", s.mean},
            {"median", s.median},
            {"worst", s.worst},
            {"worst_kernel", s.worst_kernel},
            {"spearman", optional_json(s.spearman)},
            {"pairs", s.pairs.pairs},
            {"pairs_ordered", s.pairs.ordered},
            {"active_error", optional_json(s.active_error)}};
}

Json summaries_json(const std::vector<tr::CaseError>& errors) {
    return {
        {"model", summary_json(tr::summarise(errors))},
        {"stream_roofline", summary_json(tr::summarise(errors, Predictor::kStreamRoofline))},
        {"compiled_roofline", summary_json(tr::summarise(errors, Predictor::kCompiledRoofline))}};
}

Json cases_json(const std::vector<tr::CaseError>& errors) {
    Json json = Json::array();
    for (const tr::CaseError& e : errors) json.push_back(case_json(e));
    return json;
}

Json refit_json(const RefitReport& refit) {
    Json json = {{"objective_before", refit.result.objective_before},
                 {"objective_after", refit.result.objective_after},
                 {"evaluations", refit.result.evaluations},
                 {"converged", refit.result.converged}};
    for (const tr::FitChange& change : refit.result.changes)
        json["constants"].push_back({{"key", change.key},
                                     {"before", change.before},
                                     {"after", change.after},
                                     {"identified", change.identified}});
    json["summary"] = summaries_json(refit.errors);
    json["kernels"] = cases_json(refit.errors);
    return json;
}

}  // namespace

std::string calibration_text(const CalibrationReport& report) {
    std::string text = fmt::format("{} measured kernels of {} against {}\n\n", report.errors.size(),
                                   report.measured, report.machine);
    text += kernel_table(report.errors) + "\n" + summaries(report.errors) + "\n" +
            counter_table(report.errors) + "\n" + counter_details(report.errors);
    for (const SkippedKernel& skipped : report.skipped)
        text += fmt::format("skipped {}: {}\n", skipped.name, skipped.reason);
    if (!report.ablations.empty()) text += "\n" + ablation_table(report);
    if (report.refit) text += "\n" + refit_text(*report.refit);
    if (!report.left_out.empty()) {
        text +=
            "\nleave-one-out: each kernel predicted with constants fitted to the others (the "
            "rules stay)\n";
        for (const tr::CaseError& e : report.left_out)
            text +=
                fmt::format("{:<28} {:>9}\n", e.name, signed_percent(e.error(Predictor::kModel)));
        text += summary_header() + summary_line("model, left out", tr::summarise(report.left_out));
    }
    return text;
}

std::string calibration_json(const CalibrationReport& report) {
    Json json = {{"measured", report.measured}, {"machine", report.machine}};
    json["summary"] = summaries_json(report.errors);
    json["kernels"] = cases_json(report.errors);
    json["counters"] = Json::array();
    for (const tr::CounterSummary& c : tr::summarise_counters(report.errors))
        json["counters"].push_back({{"name", c.name},
                                    {"kernels", c.kernels},
                                    {"exact", c.exact},
                                    {"within_5_percent", c.within_5_percent},
                                    {"within_20_percent", c.within_20_percent}});
    json["skipped"] = Json::array();
    for (const SkippedKernel& skipped : report.skipped)
        json["skipped"].push_back({{"kernel", skipped.name}, {"reason", skipped.reason}});
    for (const tr::Ablation& a : report.ablations)
        json["ablations"].push_back({{"without", a.mechanism->name},
                                     {"what", a.mechanism->what},
                                     {"evidence", a.mechanism->evidence},
                                     {"summary", summary_json(a.summary)}});
    if (report.refit) json["refit"] = refit_json(*report.refit);
    if (!report.left_out.empty())
        json["leave_one_out"] = {{"summary", summary_json(tr::summarise(report.left_out))},
                                 {"kernels", cases_json(report.left_out)}};
    return json.dump();
}

std::string prediction_csv(const std::vector<tr::CaseError>& errors) {
    static constexpr const char* kActive[] = {
        "tensor_engine_active_time_percent", "scalar_engine_active_time_percent",
        "vector_engine_active_time_percent", "gpsimd_engine_active_time_percent",
        "dma_active_time_percent"};
    std::string text = "kernel,latency_ms";
    for (const tr::CounterField& counter : tr::kCounterFields)
        text += "," + std::string(counter.name);
    for (const char* name : kActive) text += "," + std::string(name);
    text += "\n";
    for (const tr::CaseError& e : errors) {
        text += fmt::format("{},{:.6f}", e.name, e.predicted_ms(Predictor::kModel));
        for (const tr::CounterField& counter : tr::kCounterFields) {
            const auto& value = e.predicted.*counter.member;
            text += value ? fmt::format(",{}", *value) : ",";
        }
        for (const tr::EngineField& engine : tr::kEngineFields) {
            const auto& value = e.predicted.*engine.member;
            text += value ? fmt::format(",{:.4f}", *value) : ",";
        }
        text += "\n";
    }
    return text;
}

}  // namespace accelopt::cli
