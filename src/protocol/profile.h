#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/profile_detail.h"

namespace accelopt::protocol {

/// A predicted or measured profile. Names are neuron-profile's summary names (the columns of
/// AccelOpt's files); an absent figure is nullopt, never 0; `*_percent` are fractions (0.41).
struct Profile {
    std::optional<double> latency;  ///< milliseconds
    std::optional<std::int64_t> hbm_read_bytes;
    std::optional<std::int64_t> hbm_write_bytes;
    std::optional<std::int64_t> psum_read_bytes;
    std::optional<std::int64_t> psum_write_bytes;
    std::optional<std::int64_t> sbuf_read_bytes;
    std::optional<std::int64_t> sbuf_write_bytes;
    std::optional<std::int64_t> spill_reload_bytes;
    std::optional<std::int64_t> spill_save_bytes;
    std::optional<std::int64_t> hardware_flops;
    std::optional<std::int64_t> transpose_flops;
    std::optional<double> peak_flops_bandwidth_ratio;
    std::optional<double> mm_arithmetic_intensity;
    std::optional<double> hfu_estimated_percent;
    std::optional<double> tensor_engine_active_time_percent;
    std::optional<double> scalar_engine_active_time_percent;
    std::optional<double> vector_engine_active_time_percent;
    std::optional<double> gpsimd_engine_active_time_percent;
    std::optional<double> dma_active_time_percent;

    std::string bound;                      ///< "PE", "ACT", "DVE", "Pool" or "DMA"; "" unknown
    std::optional<double> percent_of_peak;  ///< fraction of the papers' peak model
    std::optional<double> lower_bound_ms;   ///< no honest kernel is faster (design.md, Bounds)
    std::optional<double> stream_roofline_ms;
    std::string confidence;  ///< "high", "medium", "low"; "" unknown
    std::vector<std::string> confidence_reasons;
    /// How far a difference between two predictions of this confidence may be the model's own
    /// error, as a fraction of the latency; absent where nothing is predicted.
    std::optional<double> latency_uncertainty;
    std::optional<ProfileDetail> detail;  ///< predicted profiles only
};

}  // namespace accelopt::protocol
