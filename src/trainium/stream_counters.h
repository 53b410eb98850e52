#pragma once

#include <cstdint>

#include "trainium/stream.h"

namespace accelopt::trainium {

/// Counters of a stream as neuron-profile defines them. On-chip bytes are per partition on the
/// engine side and full bytes on the DMA side (reverse-engineered from the measured profiles and
/// verified on their integers: rules R1 to R6).
struct Counters {
    std::int64_t hbm_read_bytes = 0;
    std::int64_t hbm_write_bytes = 0;
    std::int64_t psum_read_bytes = 0;
    std::int64_t psum_write_bytes = 0;
    std::int64_t sbuf_read_bytes = 0;
    std::int64_t sbuf_write_bytes = 0;
    std::int64_t spill_save_bytes = 0;
    std::int64_t spill_reload_bytes = 0;
    std::int64_t hardware_flops = 0;  ///< products and transposes; fp32 counts twice
    std::int64_t transpose_flops = 0;

    /// Flops of products per byte of HBM traffic; 0 without traffic.
    double mm_arithmetic_intensity() const;
};

/// Counts a stream.
Counters count(const Stream& stream);

}  // namespace accelopt::trainium
