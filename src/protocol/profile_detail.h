#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accelopt::protocol {

/// Where a kernel stands under the roofs of its machine. Rates are per second.
struct Roofline {
    std::string operations;  ///< "matmul" or "elementwise": whichever keeps its engines longer
    double flops = 0;        ///< of these operations; transposes and broadcasts are not work
    double bytes = 0;        ///< HBM traffic, spills included
    std::optional<double> arithmetic_intensity;  ///< flops per byte; absent without traffic
    double ridge_intensity = 0;   ///< above it the operations are the roof, below it the memory
    double peak_flops = 0;        ///< of these operations in their dtypes
    double attainable_flops = 0;  ///< under the lower of both roofs
    double achieved_flops = 0;
    std::string roof;  ///< "memory" or "compute"
};

/// Time and traffic of one source line. What the compiler adds (spills, loads of slices) has the
/// line of the tensor it serves and is a row of its own.
struct LineProfile {
    int line = 0;           ///< 0: of no line
    std::string operation;  ///< the one that costs most there: "nisa.nc_matmul", "spill of acc"
    std::int64_t instructions = 0;
    double critical_ms = 0;  ///< how much of the latency passes here: all lines sum to it
    double tensor_ms = 0;    ///< busy time per engine
    double scalar_ms = 0;
    double vector_ms = 0;
    double gpsimd_ms = 0;
    double dma_ms = 0;  ///< averaged over the queues
    std::int64_t dma_bytes = 0;
};

/// A part of the critical path: the chain of waits that leads back from the last completion.
struct CriticalPart {
    int line = 0;
    std::string operation;
    std::string unit;  ///< "PE", "ACT", "DVE", "Pool", "DMA"; "" for the start-up time
    /// Why the path waited here: "operand" (the next needed the result), "engine", "queue",
    /// "memory" (SBUF or PSUM that this was the last to use), "port" (to SBUF or PSUM,
    /// shared with another engine), "transfers" (too many in flight),
    /// "window" (program order), "end" (the last to complete), "startup".
    std::string cause;
    std::int64_t steps = 0;
    double ms = 0;
};

/// HBM traffic of one tensor.
struct TensorTraffic {
    std::string name;
    std::string kind;  ///< "input", "output", "scratch", "constant", "spilled"
    int line = 0;
    std::int64_t bytes = 0;  ///< its size; of a spilled one what was ever saved at once
    std::int64_t read_bytes = 0;
    std::int64_t written_bytes = 0;
    std::optional<double> reads_per_byte;  ///< 1 = every byte once; absent when nothing is read
};

/// How full an on-chip memory is over the run.
struct Occupancy {
    std::int64_t capacity = 0;  ///< SBUF: bytes per partition; PSUM: banks
    std::int64_t peak = 0;
    double mean = 0;
    double peak_at_ms = 0;       ///< when the peak is first reached
    std::vector<double> series;  ///< mean of equal parts of the run
};

/// What a profile says beyond its figures. Lists hold the most important rows and are followed by
/// what was left out.
struct ProfileDetail {
    std::optional<Roofline> roofline;
    std::vector<LineProfile> lines;  ///< by critical_ms
    int lines_left_out = 0;
    std::vector<CriticalPart> critical_path;  ///< by ms
    int critical_parts_left_out = 0;
    double critical_left_out_ms = 0;
    std::vector<TensorTraffic> tensors;  ///< by bytes moved
    int tensors_left_out = 0;
    std::optional<Occupancy> sbuf;
    std::optional<Occupancy> psum;
};

}  // namespace accelopt::protocol
