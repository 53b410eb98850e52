#include "store/profile_columns.h"

#include <limits>

#include "core/text.h"

namespace accelopt::store {
namespace {

using protocol::Profile;

struct IntegerFigure {
    const char* name;
    std::optional<std::int64_t> Profile::*member;
};

struct NumberFigure {
    const char* name;
    std::optional<double> Profile::*member;
};

constexpr IntegerFigure kIntegerFigures[] = {
    {"hbm_read_bytes", &Profile::hbm_read_bytes},
    {"hbm_write_bytes", &Profile::hbm_write_bytes},
    {"psum_read_bytes", &Profile::psum_read_bytes},
    {"psum_write_bytes", &Profile::psum_write_bytes},
    {"sbuf_read_bytes", &Profile::sbuf_read_bytes},
    {"sbuf_write_bytes", &Profile::sbuf_write_bytes},
    {"spill_reload_bytes", &Profile::spill_reload_bytes},
    {"spill_save_bytes", &Profile::spill_save_bytes},
    {"hardware_flops", &Profile::hardware_flops},
    {"transpose_flops", &Profile::transpose_flops},
};

constexpr NumberFigure kNumberFigures[] = {
    {"latency", &Profile::latency},
    {"peak_flops_bandwidth_ratio", &Profile::peak_flops_bandwidth_ratio},
    {"mm_arithmetic_intensity", &Profile::mm_arithmetic_intensity},
    {"hfu_estimated_percent", &Profile::hfu_estimated_percent},
    {"tensor_engine_active_time_percent", &Profile::tensor_engine_active_time_percent},
    {"scalar_engine_active_time_percent", &Profile::scalar_engine_active_time_percent},
    {"vector_engine_active_time_percent", &Profile::vector_engine_active_time_percent},
    {"gpsimd_engine_active_time_percent", &Profile::gpsimd_engine_active_time_percent},
    {"dma_active_time_percent", &Profile::dma_active_time_percent},
    {"percent_of_peak", &Profile::percent_of_peak},
    {"lower_bound_ms", &Profile::lower_bound_ms},
    {"stream_roofline_ms", &Profile::stream_roofline_ms},
    {"latency_uncertainty", &Profile::latency_uncertainty},
};

template <typename Values, typename Field>
Values column_of(const std::vector<ProfileRow>& rows, Field field) {
    Values values;
    values.reserve(rows.size());
    for (const auto& row : rows) values.push_back(field(row));
    return values;
}

}  // namespace

std::vector<ProfileRow> profile_rows(const std::vector<CandidateRow>& evaluated) {
    std::vector<ProfileRow> rows;
    for (const auto& candidate : evaluated) {
        const auto& reply = *candidate.evaluation;
        if (reply.profile) rows.push_back({candidate.id, "predicted", &*reply.profile});
        if (reply.as_written) rows.push_back({candidate.id, "as_written", &*reply.as_written});
        if (reply.measured) rows.push_back({candidate.id, "measured", &*reply.measured});
    }
    return rows;
}

Table profiles_table(const std::vector<CandidateRow>& evaluated) {
    using Integers = std::vector<std::int64_t>;
    using Numbers = std::vector<double>;
    using Texts = std::vector<std::string>;
    const auto rows = profile_rows(evaluated);
    Table table("profiles");
    table.add("candidate", column_of<Texts>(rows, [](const auto& r) { return r.candidate; }));
    table.add("kind", column_of<Texts>(rows, [](const auto& r) { return std::string(r.kind); }));
    for (const auto& figure : kNumberFigures) {
        table.add(figure.name, column_of<Numbers>(rows, [&](const auto& r) {
                      return (r.profile->*figure.member)
                          .value_or(std::numeric_limits<double>::quiet_NaN());
                  }));
    }
    for (const auto& figure : kIntegerFigures) {
        table.add(figure.name, column_of<Integers>(rows, [&](const auto& r) {
                      return (r.profile->*figure.member).value_or(-1);
                  }));
    }
    table.add("bound", column_of<Texts>(rows, [](const auto& r) { return r.profile->bound; }));
    table.add("confidence",
              column_of<Texts>(rows, [](const auto& r) { return r.profile->confidence; }));
    table.add("confidence_reasons", column_of<Texts>(rows, [](const auto& r) {
                  return join(r.profile->confidence_reasons, "\n");
              }));
    using protocol::ProfileDetail;
    const auto left_out = [&](const char* name, int ProfileDetail::*member) {
        table.add(name, column_of<Integers>(rows, [&](const auto& r) {
                      return r.profile->detail ? std::int64_t{(*r.profile->detail).*member} : -1;
                  }));
    };
    left_out("lines_left_out", &ProfileDetail::lines_left_out);
    left_out("critical_parts_left_out", &ProfileDetail::critical_parts_left_out);
    left_out("tensors_left_out", &ProfileDetail::tensors_left_out);
    table.add("critical_left_out_ms", column_of<Numbers>(rows, [](const auto& r) {
                  return r.profile->detail ? r.profile->detail->critical_left_out_ms
                                           : std::numeric_limits<double>::quiet_NaN();
              }));
    return table;
}

}  // namespace accelopt::store
