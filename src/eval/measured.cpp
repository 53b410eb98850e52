#include "eval/measured.h"

#include <charconv>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "core/text.h"

namespace accelopt::eval {

namespace {

using Row = std::map<std::string, double>;

std::optional<double> figure(const Row& row, const std::string& name) {
    const auto found = row.find(name);
    return found == row.end() ? std::nullopt : std::optional<double>(found->second);
}

std::optional<std::int64_t> count(const Row& row, const std::string& name) {
    const auto value = figure(row, name);
    return value ? std::optional<std::int64_t>(static_cast<std::int64_t>(*value)) : std::nullopt;
}

protocol::Profile profile_from(const Row& row) {
    protocol::Profile p;
    p.latency = figure(row, "latency_ms");
    p.hbm_read_bytes = count(row, "hbm_read_bytes");
    p.hbm_write_bytes = count(row, "hbm_write_bytes");
    p.psum_read_bytes = count(row, "psum_read_bytes");
    p.psum_write_bytes = count(row, "psum_write_bytes");
    p.sbuf_read_bytes = count(row, "sbuf_read_bytes");
    p.sbuf_write_bytes = count(row, "sbuf_write_bytes");
    p.spill_reload_bytes = count(row, "spill_reload_bytes");
    p.spill_save_bytes = count(row, "spill_save_bytes");
    p.hardware_flops = count(row, "hardware_flops");
    p.transpose_flops = count(row, "transpose_flops");
    p.peak_flops_bandwidth_ratio = figure(row, "peak_flops_bandwidth_ratio");
    p.mm_arithmetic_intensity = figure(row, "mm_arithmetic_intensity");
    p.hfu_estimated_percent = figure(row, "hfu_estimated_percent");
    p.tensor_engine_active_time_percent = figure(row, "tensor_engine_active_time_percent");
    p.scalar_engine_active_time_percent = figure(row, "scalar_engine_active_time_percent");
    p.vector_engine_active_time_percent = figure(row, "vector_engine_active_time_percent");
    p.gpsimd_engine_active_time_percent = figure(row, "gpsimd_engine_active_time_percent");
    p.dma_active_time_percent = figure(row, "dma_active_time_percent");
    return p;
}

[[noreturn]] void fail(const std::string& path, std::size_t line, const std::string& what) {
    throw Error(ErrorSource::kConfig, "measured", path + ":" + std::to_string(line) + ": " + what);
}

Row parse_row(const std::vector<std::string>& names, const std::vector<std::string>& fields,
              const std::string& path, std::size_t line) {
    if (fields.size() != names.size()) {
        fail(path, line,
             std::to_string(fields.size()) + " fields, the header has " +
                 std::to_string(names.size()));
    }
    Row row;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        if (fields[i].empty() || names[i] == "problem" || names[i] == "shape") continue;
        double value = 0;
        const char* end = fields[i].data() + fields[i].size();
        const auto parsed = std::from_chars(fields[i].data(), end, value);
        if (parsed.ec != std::errc{} || parsed.ptr != end) {
            fail(path, line, "'" + fields[i] + "' is not a number (" + names[i] + ")");
        }
        row[names[i]] = value;
    }
    return row;
}

}  // namespace

std::optional<protocol::Profile> read_measured(const std::string& path,
                                               const std::string& problem) {
    if (!std::filesystem::exists(path)) return std::nullopt;
    std::vector<std::string> names;
    std::size_t line_number = 0;
    for (std::string line : split(read_file(path), '\n')) {
        ++line_number;
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.empty()) continue;
        std::vector<std::string> fields = split(line, ',');
        if (names.empty()) {
            names = std::move(fields);
            if (names.front() != "problem") fail(path, line_number, "the header lacks 'problem'");
        } else if (fields.front() == problem) {
            return profile_from(parse_row(names, fields, path, line_number));
        }
    }
    return std::nullopt;
}

}  // namespace accelopt::eval
