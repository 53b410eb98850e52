#include "agents/profile_lines.h"

#include <fmt/format.h>

#include <optional>

#include "core/text.h"

namespace accelopt::agents {
namespace {

void add(std::vector<std::string>& lines, const char* name, const std::optional<double>& value) {
    if (value) lines.push_back(fmt::format("{}: {:.6g}", name, *value));
}

void add(std::vector<std::string>& lines, const char* name,
         const std::optional<std::int64_t>& value) {
    if (value) lines.push_back(fmt::format("{}: {}", name, *value));
}

}  // namespace

std::vector<std::string> profile_lines(const protocol::Profile& profile) {
    std::vector<std::string> lines;
    add(lines, "latency", profile.latency);
    add(lines, "hbm_read_bytes", profile.hbm_read_bytes);
    add(lines, "hbm_write_bytes", profile.hbm_write_bytes);
    add(lines, "psum_read_bytes", profile.psum_read_bytes);
    add(lines, "psum_write_bytes", profile.psum_write_bytes);
    add(lines, "sbuf_read_bytes", profile.sbuf_read_bytes);
    add(lines, "sbuf_write_bytes", profile.sbuf_write_bytes);
    add(lines, "spill_reload_bytes", profile.spill_reload_bytes);
    add(lines, "spill_save_bytes", profile.spill_save_bytes);
    add(lines, "hardware_flops", profile.hardware_flops);
    add(lines, "transpose_flops", profile.transpose_flops);
    add(lines, "peak_flops_bandwidth_ratio", profile.peak_flops_bandwidth_ratio);
    add(lines, "mm_arithmetic_intensity", profile.mm_arithmetic_intensity);
    add(lines, "hfu_estimated_percent", profile.hfu_estimated_percent);
    add(lines, "tensor_engine_active_time_percent", profile.tensor_engine_active_time_percent);
    add(lines, "scalar_engine_active_time_percent", profile.scalar_engine_active_time_percent);
    add(lines, "vector_engine_active_time_percent", profile.vector_engine_active_time_percent);
    add(lines, "gpsimd_engine_active_time_percent", profile.gpsimd_engine_active_time_percent);
    add(lines, "dma_active_time_percent", profile.dma_active_time_percent);
    if (!profile.bound.empty()) lines.push_back("bound: " + profile.bound);
    add(lines, "percent_of_peak", profile.percent_of_peak);
    return lines;
}

std::string shuffled_profile(const protocol::Profile& profile, RandomStream stream) {
    const auto lines = profile_lines(profile);
    std::vector<std::string> shuffled;
    for (const auto index : stream.permutation(lines.size())) shuffled.push_back(lines[index]);
    return join(shuffled, "\n");
}

}  // namespace accelopt::agents
