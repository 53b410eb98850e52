#include "report/profile_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/format.h"
#include "report/grid.h"
#include "report/profile_detail_view.h"

namespace accelopt::report {
namespace {

using protocol::EvaluationReply;
using protocol::Profile;

struct EngineFigure {
    const char* name;
    std::optional<double> Profile::*share;
};

constexpr EngineFigure kEngines[] = {
    {"PE (tensor)", &Profile::tensor_engine_active_time_percent},
    {"ACT (scalar)", &Profile::scalar_engine_active_time_percent},
    {"DVE (vector)", &Profile::vector_engine_active_time_percent},
    {"Pool (gpsimd)", &Profile::gpsimd_engine_active_time_percent},
    {"DMA", &Profile::dma_active_time_percent},
};

struct ByteFigure {
    const char* name;
    std::optional<std::int64_t> Profile::*bytes;
};

constexpr ByteFigure kTraffic[] = {
    {"HBM read", &Profile::hbm_read_bytes},           {"HBM written", &Profile::hbm_write_bytes},
    {"SBUF read", &Profile::sbuf_read_bytes},         {"SBUF written", &Profile::sbuf_write_bytes},
    {"PSUM read", &Profile::psum_read_bytes},         {"PSUM written", &Profile::psum_write_bytes},
    {"spill reloaded", &Profile::spill_reload_bytes}, {"spill saved", &Profile::spill_save_bytes},
};

constexpr ByteFigure kOperations[] = {
    {"flops", &Profile::hardware_flops},
    {"of these transposes", &Profile::transpose_flops},
};

std::string heading(const EvaluationReply& reply, const TerminalStyle& style) {
    std::string verdict(to_string(reply.outcome));
    if (!reply.reason.empty()) verdict += "/" + reply.reason;
    const bool ok = reply.outcome == protocol::Outcome::kOk;
    std::string text =
        coloured(fmt::format("{} on {}: ", reply.problem, reply.target), Colour::kBold, style) +
        coloured(verdict, ok ? Colour::kGreen : Colour::kRed, style);
    if (!reply.tier.empty()) text += fmt::format(" (reached: {})", reply.tier);
    text += "\n";
    std::string identity;
    if (!reply.source_sha256.empty()) identity = "kernel " + reply.source_sha256.substr(0, 16);
    if (!reply.machine.empty())
        identity += (identity.empty() ? "" : ", ") + ("machine " + reply.machine);
    if (!identity.empty()) text += "  " + coloured(identity, Colour::kDim, style) + "\n";
    return text;
}

Colour confidence_colour(const std::string& confidence) {
    if (confidence == "high") return Colour::kGreen;
    return confidence == "medium" ? Colour::kYellow : Colour::kRed;
}

/// The line that says it all: latency, percent of peak, bound, confidence; then why not more.
std::string summary_lines(const Profile& profile, const TerminalStyle& style) {
    std::string text =
        "\n" + coloured(format_ms(profile.latency) + " ms", Colour::kBold, style) + " predicted";
    if (profile.percent_of_peak) {
        text += fmt::format(", {} % of peak", format_percent(profile.percent_of_peak));
    }
    text += ", bound by " +
            coloured(profile.bound.empty() ? kUnknown : profile.bound, Colour::kCyan, style);
    const std::string confidence = profile.confidence.empty() ? kUnknown : profile.confidence;
    text += ", confidence " + coloured(confidence, confidence_colour(confidence), style);
    if (profile.latency_uncertainty) {
        text += fmt::format(" (+- {:.0f} %)", 100 * *profile.latency_uncertainty);
    }
    text += "\n";
    for (const auto& reason : profile.confidence_reasons) text += "  - " + reason + "\n";
    return text;
}

std::string bound_lines(const EvaluationReply& reply) {
    const Profile& profile = *reply.profile;
    const auto line = [](const char* name, const std::string& value, const std::string& note) {
        return fmt::format("  {:<16} {:>10}  {}\n", name, value, note);
    };
    std::string text = "\n";
    if (reply.measured && reply.measured->latency) {
        std::string note = "ms";
        if (profile.latency && *reply.measured->latency > 0) {
            note += fmt::format(" (prediction {:+.1f} %)",
                                100 * (*profile.latency / *reply.measured->latency - 1));
        }
        text += line("measured", format_ms(reply.measured->latency), note);
    }
    text += line("lower bound", format_ms(profile.lower_bound_ms),
                 profile.lower_bound_ms ? "ms, no honest kernel is faster"
                                        : "no problem says what is needed");
    text += line("stream roofline", format_ms(profile.stream_roofline_ms),
                 "ms, busiest engine of the kernel as written");
    return text + roofline_lines(profile);
}

std::string engine_lines(const Profile& profile, const TerminalStyle& style) {
    constexpr int kOtherColumns = 28;
    const int cells = std::clamp(style.width - kOtherColumns, 10, 60);
    std::string text =
        "\n" + coloured("engines, share of the time active", Colour::kBold, style) + "\n";
    for (const auto& engine : kEngines) {
        const auto share = profile.*engine.share;
        const std::string drawn = bar(share.value_or(0), cells);
        const bool bound =
            !profile.bound.empty() && std::string(engine.name).rfind(profile.bound, 0) == 0;
        text += fmt::format("  {:<14} {} {:>6}{}\n", engine.name,
                            bound ? coloured(drawn, Colour::kCyan, style) : drawn,
                            format_percent(share), share ? " %" : "");
    }
    return text;
}

template <std::size_t N, typename Format>
void add_rows(Grid& grid, const EvaluationReply& reply, const ByteFigure (&figures)[N],
              Format format) {
    for (const auto& figure : figures) {
        std::vector<std::string> row = {std::string("  ") + figure.name,
                                        format((*reply.profile).*figure.bytes)};
        if (reply.as_written) row.push_back(format((*reply.as_written).*figure.bytes));
        if (reply.measured) row.push_back(format((*reply.measured).*figure.bytes));
        grid.rows.push_back(std::move(row));
    }
}

std::string traffic_table(const EvaluationReply& reply) {
    Grid grid;
    grid.columns = {{"traffic and work", false}, {"compiled", true}};
    if (reply.as_written) grid.columns.push_back({"as written", true});
    if (reply.measured) grid.columns.push_back({"measured", true});
    add_rows(grid, reply, kTraffic, format_bytes);
    add_rows(grid, reply, kOperations, [](std::optional<std::int64_t> count) {
        return format_count(count ? std::optional<double>(static_cast<double>(*count))
                                  : std::nullopt);
    });
    return "\n" + render_grid(grid, "text");
}

/// Of a kernel without a reference.
std::string unverified_lines(const EvaluationReply& reply) {
    std::string text = "\nvalues, compared with nothing\n";
    for (const auto& check : reply.correctness) {
        text += fmt::format("  output {}: {}\n", check.output,
                            check.ok ? "finite and complete" : "at fault");
    }
    return text;
}

std::string correctness_lines(const EvaluationReply& reply) {
    if (reply.correctness.empty()) return "";
    if (reply.correctness.front().rule == "none") return unverified_lines(reply);
    struct Worst {
        double rel_l2 = 0;
        bool measured = false;
        int checks = 0;
        int passed = 0;
    };
    std::map<std::pair<int, std::string>, Worst> outputs;
    for (const auto& check : reply.correctness) {
        Worst& worst = outputs[{check.output, check.input}];
        ++worst.checks;
        worst.passed += check.ok ? 1 : 0;
        if (check.rel_l2) worst.rel_l2 = std::max(worst.rel_l2, *check.rel_l2);
        worst.measured = worst.measured || check.rel_l2.has_value();
    }
    std::string text = fmt::format("\ncorrectness, rule {}\n", reply.correctness.front().rule);
    for (const auto& [key, worst] : outputs) {
        text += fmt::format("  output {} ({}): {} of {} seeds pass", key.first, key.second,
                            worst.passed, worst.checks);
        if (worst.measured) text += fmt::format(", worst relative error {:.2e}", worst.rel_l2);
        text += "\n";
    }
    return text;
}

}  // namespace

std::string profile_view(const EvaluationReply& reply, const ProfileViewOptions& options) {
    std::string text = heading(reply, options.style);
    if (reply.profile) {
        const Profile& profile = *reply.profile;
        text += summary_lines(profile, options.style) + bound_lines(reply) +
                engine_lines(profile, options.style) + line_table(profile, options) +
                critical_path_table(profile, options) + tensor_table(profile, options) +
                occupancy_lines(profile, options) + traffic_table(reply);
    }
    text += correctness_lines(reply);
    for (const auto& diagnostic : reply.diagnostics) {
        text += "\n" + protocol::render(diagnostic, options.kernel_name);
        if (text.back() != '\n') text += '\n';
    }
    return text;
}

}  // namespace accelopt::report
