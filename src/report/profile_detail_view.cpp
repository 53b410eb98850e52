#include "report/profile_detail_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "report/format.h"

namespace accelopt::report {
namespace {

using protocol::LineProfile;
using protocol::Profile;
using protocol::ProfileDetail;

constexpr std::size_t kShortestSource = 16;
constexpr double kWorthARow = 0.0005;  ///< of the latency: less would be shown as 0.0 %

struct EngineColumn {
    const char* title;
    double LineProfile::*ms;
};
constexpr EngineColumn kEngineColumns[] = {{"PE ms", &LineProfile::tensor_ms},
                                           {"ACT ms", &LineProfile::scalar_ms},
                                           {"DVE ms", &LineProfile::vector_ms},
                                           {"Pool ms", &LineProfile::gpsimd_ms},
                                           {"DMA ms", &LineProfile::dma_ms}};

std::string heading(const std::string& text, const ProfileViewOptions& options) {
    return "\n" + coloured(text, Colour::kBold, options.style) + "\n";
}

std::string left_out(int rows, const char* what) {
    if (rows == 0) return "";
    return fmt::format("  ... and {} more {} (all: --full)\n", rows, what);
}

/// Rows of text cells, the last one as wide as the terminal allows.
class Columns {
  public:
    Columns(std::vector<std::string> titles, std::vector<bool> numeric)
        : numeric_(std::move(numeric)) {
        rows_.push_back(std::move(titles));
    }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

    std::string render(const TerminalStyle& style) const {
        const std::size_t last = numeric_.size() - 1;
        std::vector<std::size_t> widths(numeric_.size(), 0);
        for (const auto& row : rows_) {
            for (std::size_t c = 0; c <= last; ++c) {
                widths[c] = std::max(widths[c], columns_of(row[c]));
            }
        }
        std::size_t used = 0;
        for (std::size_t c = 0; c < last; ++c) used += widths[c] + 2;
        const auto width = static_cast<std::size_t>(std::max(0, style.width));
        const std::size_t rest = std::max(width > used + 2 ? width - used - 2 : 0, kShortestSource);
        std::string text;
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            std::string line = " ";
            for (std::size_t c = 0; c < last; ++c) {
                line += ' ';
                line += numeric_[c] ? pad_left(rows_[r][c], widths[c])
                                    : pad_right(rows_[r][c], widths[c]);
                line += ' ';
            }
            line += ' ' + cut_to(rows_[r][last], rest);
            line.erase(line.find_last_not_of(' ') + 1);
            text += (r == 0 ? coloured(line, Colour::kDim, style) : line) + "\n";
        }
        return text;
    }

  private:
    std::vector<bool> numeric_;
    std::vector<std::vector<std::string>> rows_;
};

/// The text of a source line without its indentation; "" when it is not at hand.
std::string source_text(const ProfileViewOptions& options, int line) {
    if (options.source.empty() || line < 1) return "";
    const auto lines = split(options.source, '\n');
    if (static_cast<std::size_t>(line) > lines.size()) return "";
    const std::string& text = lines[static_cast<std::size_t>(line) - 1];
    const auto begin = text.find_first_not_of(" \t");
    return begin == std::string::npos ? "" : text.substr(begin);
}

std::string line_number(int line) { return line > 0 ? fmt::format("{}", line) : "-"; }

std::string share_of(double ms, const Profile& profile) {
    if (!profile.latency || *profile.latency <= 0) return kUnknown;
    return fmt::format("{:.1f}", 100 * ms / *profile.latency);
}

/// Zero work is a dash, so that the eye finds what is there.
std::string work_ms(double ms) { return ms > 0 ? fmt::format("{:.3f}", ms) : "-"; }

/// What the line does: its source, or what the compiler added.
std::string line_text(const LineProfile& line, const ProfileViewOptions& options) {
    const std::string text = source_text(options, line.line);
    const bool compilers =
        line.operation.rfind("spill of ", 0) == 0 || line.operation.rfind("reload of ", 0) == 0;
    if (text.empty() || compilers) return line.operation;
    return text;
}

std::string cause_text(const std::string& cause) {
    if (cause == "operand") return "its result is needed";
    if (cause == "engine") return "its engine is busy";
    if (cause == "queue") return "the queues are full";
    if (cause == "memory") return "it holds the memory";
    if (cause == "port") return "it has the memory port";
    if (cause == "transfers") return "too many transfers in flight";
    if (cause == "window") return "program order";
    if (cause == "end") return "last to finish";
    if (cause == "startup") return "launch and end of the kernel";
    return cause;
}

std::string occupancy_line(const char* name, const protocol::Occupancy& memory, bool banks,
                           const ProfileViewOptions& options) {
    const auto amount = [&](double value) {
        return banks ? fmt::format("{:.1f}", value) : fmt::format("{:.1f}", value / 1024);
    };
    const auto whole = [&](std::int64_t value) {
        return banks ? fmt::format("{}", value)
                     : fmt::format("{:.1f}", static_cast<double>(value) / 1024);
    };
    if (memory.peak == 0) return fmt::format("  {:<5} not used\n", name);
    const std::string figures = fmt::format(
        "peak {} at {:.3f} ms, mean {} of {} {}", whole(memory.peak), memory.peak_at_ms,
        amount(memory.mean), whole(memory.capacity), banks ? "banks" : "KiB per partition");
    const auto cells = static_cast<std::size_t>(std::clamp(options.style.width - 10, 16, 96));
    return fmt::format("  {:<5} |{}|\n        {}\n", name,
                       sparkline(memory.series, static_cast<double>(memory.capacity), cells),
                       figures);
}

}  // namespace

std::string line_table(const Profile& profile, const ProfileViewOptions& options) {
    if (!profile.detail || profile.detail->lines.empty()) return "";
    const ProfileDetail& detail = *profile.detail;
    std::vector<const EngineColumn*> engines;
    for (const EngineColumn& engine : kEngineColumns) {
        const bool used = std::any_of(detail.lines.begin(), detail.lines.end(),
                                      [&](const LineProfile& l) { return l.*engine.ms > 0; });
        if (used) engines.push_back(&engine);
    }
    std::vector<std::string> titles = {"line", "path ms", "%"};
    std::vector<bool> numeric = {true, true, true};
    for (const EngineColumn* engine : engines) {
        titles.emplace_back(engine->title);
        numeric.push_back(true);
    }
    titles.insert(titles.end(), {"moved", "source"});
    numeric.insert(numeric.end(), {true, false});
    Columns table(std::move(titles), std::move(numeric));
    for (const LineProfile& line : detail.lines) {
        std::vector<std::string> row = {line_number(line.line),
                                        fmt::format("{:.3f}", line.critical_ms),
                                        share_of(line.critical_ms, profile)};
        for (const EngineColumn* engine : engines) row.push_back(work_ms(line.*engine->ms));
        row.push_back(line.dma_bytes > 0 ? format_bytes(line.dma_bytes) : "-");
        row.push_back(line_text(line, options));
        table.add(std::move(row));
    }
    return heading("where the time goes, by source line (path: critical path; engines: busy)",
                   options) +
           table.render(options.style) + left_out(detail.lines_left_out, "lines");
}

std::string critical_path_table(const Profile& profile, const ProfileViewOptions& options) {
    if (!profile.detail || profile.detail->critical_path.empty()) return "";
    const ProfileDetail& detail = *profile.detail;
    Columns table({"ms", "%", "on", "line", "operation", "steps", "what the next waits for"},
                  {true, true, false, true, false, true, false});
    int more = detail.critical_parts_left_out;
    double more_ms = detail.critical_left_out_ms;
    for (const auto& part : detail.critical_path) {
        if (part.ms < kWorthARow * profile.latency.value_or(0)) {
            ++more;
            more_ms += part.ms;
            continue;
        }
        table.add({fmt::format("{:.3f}", part.ms), share_of(part.ms, profile),
                   part.unit.empty() ? "-" : part.unit, line_number(part.line), part.operation,
                   fmt::format("{}", part.steps), cause_text(part.cause)});
    }
    std::string text = heading("critical path, what the latency is made of", options) +
                       table.render(options.style);
    if (more > 0) {
        text += fmt::format("  ... and {} more parts, {:.3f} ms together (all: --json --full)\n",
                            more, more_ms);
    }
    return text;
}

std::string tensor_table(const Profile& profile, const ProfileViewOptions& options) {
    if (!profile.detail || profile.detail->tensors.empty()) return "";
    Columns table({"tensor", "kind", "size", "read", "times", "written", "line"},
                  {false, false, true, true, true, true, false});
    for (const auto& tensor : profile.detail->tensors) {
        table.add({tensor.name, tensor.kind, tensor.bytes > 0 ? format_bytes(tensor.bytes) : "-",
                   tensor.read_bytes > 0 ? format_bytes(tensor.read_bytes) : "-",
                   tensor.reads_per_byte ? fmt::format("{:.1f}x", *tensor.reads_per_byte) : "-",
                   tensor.written_bytes > 0 ? format_bytes(tensor.written_bytes) : "-",
                   line_number(tensor.line)});
    }
    return heading("HBM traffic by tensor (times: how often a byte is read; 1.0x is ideal)",
                   options) +
           table.render(options.style) + left_out(profile.detail->tensors_left_out, "tensors");
}

std::string occupancy_lines(const Profile& profile, const ProfileViewOptions& options) {
    if (!profile.detail || (!profile.detail->sbuf && !profile.detail->psum)) return "";
    std::string text = heading("on-chip memory over the run", options);
    if (profile.detail->sbuf) text += occupancy_line("SBUF", *profile.detail->sbuf, false, options);
    if (profile.detail->psum) text += occupancy_line("PSUM", *profile.detail->psum, true, options);
    return text;
}

std::string roofline_lines(const Profile& profile) {
    if (!profile.detail || !profile.detail->roofline) return "";
    const protocol::Roofline& roof = *profile.detail->roofline;
    std::string text;
    if (roof.arithmetic_intensity) {
        text += fmt::format("  {:<16} {:>10}  {} op/byte of HBM traffic, ridge at {:.3g}\n",
                            "intensity", fmt::format("{:.3g}", *roof.arithmetic_intensity),
                            roof.operations, roof.ridge_intensity);
    }
    const double reached =
        roof.attainable_flops > 0 ? 100 * roof.achieved_flops / roof.attainable_flops : 0;
    text +=
        fmt::format("  {:<16} {:>10}  % of the {} roof, {}op/s\n", "roofline",
                    fmt::format("{:.1f}", reached), roof.roof, format_count(roof.attainable_flops));
    return text;
}

}  // namespace accelopt::report
