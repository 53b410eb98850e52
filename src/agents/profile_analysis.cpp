#include "agents/profile_analysis.h"

#include <fmt/format.h>

#include <vector>

#include "core/text.h"

namespace accelopt::agents {
namespace {

using protocol::Profile;
using protocol::ProfileDetail;

// A prompt holds what decides, not all there is.
constexpr std::size_t kLines = 6;
constexpr std::size_t kParts = 5;
constexpr std::size_t kTensors = 5;
constexpr std::size_t kSourceCharacters = 80;
constexpr double kWorthASay = 0.01;     ///< of the latency
constexpr double kReadMoreThan = 1.05;  ///< times per byte

std::string source_text(const std::vector<std::string>& lines, int line) {
    if (line < 1 || static_cast<std::size_t>(line) > lines.size()) return "";
    std::string text = lines[static_cast<std::size_t>(line) - 1];
    const auto begin = text.find_first_not_of(" \t");
    if (begin == std::string::npos) return "";
    text = text.substr(begin);
    if (text.size() > kSourceCharacters) {
        std::size_t end = kSourceCharacters;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
        text = text.substr(0, end) + "...";
    }
    return text;
}

std::string mib(std::int64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

/// "DMA 0.70 ms, ACT 0.20 ms".
std::string busy_text(const protocol::LineProfile& line) {
    const std::pair<const char*, double> engines[] = {{"tensor", line.tensor_ms},
                                                      {"scalar", line.scalar_ms},
                                                      {"vector", line.vector_ms},
                                                      {"gpsimd", line.gpsimd_ms},
                                                      {"DMA", line.dma_ms}};
    std::vector<std::string> parts;
    for (const auto& [name, ms] : engines) {
        if (ms > 0) parts.push_back(fmt::format("{} {:.3g} ms", name, ms));
    }
    return parts.empty() ? "no engine time" : join(parts, ", ");
}

std::string line_lines(const ProfileDetail& detail, double latency_ms, const std::string& source) {
    const auto lines = split(source, '\n');
    std::string text;
    for (std::size_t i = 0; i < detail.lines.size() && i < kLines; ++i) {
        const auto& line = detail.lines[i];
        if (line.critical_ms < kWorthASay * latency_ms) break;
        const std::string code = source_text(lines, line.line);
        text += fmt::format("- {:.0f} %: line {} ({}){}; busy: {}{}\n",
                            100 * line.critical_ms / latency_ms, line.line, line.operation,
                            code.empty() ? "" : " `" + code + "`", busy_text(line),
                            line.dma_bytes > 0 ? ", moves " + mib(line.dma_bytes) : "");
    }
    return text.empty() ? "" : "time by source line (share of the critical path):\n" + text;
}

std::string cause_text(const std::string& cause) {
    if (cause == "operand") return "the next step needs its result";
    if (cause == "engine") return "the next step waits for the same engine";
    if (cause == "queue") return "the next transfer waits for the DMA queues";
    if (cause == "memory") return "the next step waits for the memory it holds";
    if (cause == "port") return "the next step waits for a memory port that it uses";
    if (cause == "transfers") return "too many transfers are in flight";
    if (cause == "window") return "the next step is too far ahead in program order";
    if (cause == "end") return "it finishes last";
    return cause;
}

std::string path_lines(const ProfileDetail& detail, double latency_ms) {
    std::string text;
    for (std::size_t i = 0; i < detail.critical_path.size() && i < kParts; ++i) {
        const auto& part = detail.critical_path[i];
        if (part.ms < kWorthASay * latency_ms) break;
        if (part.line == 0 && part.unit.empty()) {
            text += fmt::format("- {:.0f} %: {}\n", 100 * part.ms / latency_ms, part.operation);
            continue;
        }
        text += fmt::format("- {:.0f} %: {} on line {} ({}): {}\n", 100 * part.ms / latency_ms,
                            part.operation, part.line, part.unit, cause_text(part.cause));
    }
    return text.empty() ? "" : "critical path:\n" + text;
}

std::string tensor_lines(const ProfileDetail& detail) {
    std::string text;
    std::size_t shown = 0;
    for (const auto& tensor : detail.tensors) {
        const bool spilled = tensor.kind == "spilled";
        if (!spilled && tensor.reads_per_byte.value_or(0) < kReadMoreThan) continue;
        if (++shown > kTensors) break;
        if (spilled) {
            text += fmt::format("- {} (line {}) is spilled: {} saved, {} reloaded\n", tensor.name,
                                tensor.line, mib(tensor.written_bytes), mib(tensor.read_bytes));
        } else {
            text +=
                fmt::format("- {} ({}): every byte is read {:.3g} times, {} in all\n", tensor.name,
                            tensor.kind, *tensor.reads_per_byte, mib(tensor.read_bytes));
        }
    }
    return text.empty() ? "" : "HBM traffic that could be less:\n" + text;
}

std::string memory_line(const ProfileDetail& detail) {
    std::vector<std::string> parts;
    if (detail.sbuf) {
        parts.push_back(fmt::format("SBUF at most {:.0f} of {:.0f} KiB per partition",
                                    static_cast<double>(detail.sbuf->peak) / 1024,
                                    static_cast<double>(detail.sbuf->capacity) / 1024));
    }
    if (detail.psum) {
        parts.push_back(
            fmt::format("PSUM at most {} of {} banks", detail.psum->peak, detail.psum->capacity));
    }
    return parts.empty() ? "" : "on-chip memory in use: " + join(parts, "; ") + "\n";
}

std::string roofline_line(const ProfileDetail& detail) {
    if (!detail.roofline || !detail.roofline->arithmetic_intensity) return "";
    const protocol::Roofline& roof = *detail.roofline;
    return fmt::format(
        "roofline: {:.3g} {} operations per byte of HBM traffic, {} is the roof (ridge at {:.3g}); "
        "{:.0f} % of what it allows is reached\n",
        *roof.arithmetic_intensity, roof.operations, roof.roof, roof.ridge_intensity,
        100 * roof.achieved_flops / roof.attainable_flops);
}

}  // namespace

std::string profile_analysis(const Profile& profile, const std::string& source) {
    const double latency_ms = profile.latency.value_or(0);
    if (!profile.detail || latency_ms <= 0) return "";
    const ProfileDetail& detail = *profile.detail;
    return roofline_line(detail) + line_lines(detail, latency_ms, source) +
           path_lines(detail, latency_ms) + tensor_lines(detail) + memory_line(detail);
}

}  // namespace accelopt::agents
