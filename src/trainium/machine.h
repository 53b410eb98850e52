#pragma once

#include <cstdint>
#include <string>

namespace accelopt::trainium {

/// Every constant of the machine, filled by eval from configs/hardware/TARGET.yaml. Units are in
/// the names; the YAML file holds the source of every value. Grow freely: one member per key.
struct Machine {
    std::string name;      ///< "trn1"
    std::string hash;      ///< of the description file, first 12 digits
    int core_version = 0;  ///< NeuronCore generation: decides what the language refuses
    // Memories
    int partitions = 0;
    std::int64_t sbuf_partition_bytes = 0;
    std::int64_t psum_partition_bytes = 0;
    std::int64_t psum_bank_bytes = 0;
    // Peak model (papers.md, table 4)
    double peak_hbm_bytes_per_s = 0;
    double peak_matmul_flops = 0;
    double peak_vector_flops = 0;
    // Clocks
    double tensor_ghz = 0;
    double vector_ghz = 0;
    double scalar_ghz = 0;
    double gpsimd_ghz = 0;
    // TensorE
    double tensor_fp32_passes = 0;
    double tensor_fp32_transpose_passes = 0;
    double tensor_onezero_passes = 0;
    double tensor_bf16_passes = 0;
    double tensor_overhead_columns = 0;
    double tensor_min_columns = 0;
    double tensor_peak_bf16_flops = 0;  ///< denominator of hfu_estimated_percent
    // Elementwise engines
    double scalar_overhead_cycles = 0;
    double vector_overhead_cycles = 0;
    double gpsimd_overhead_cycles = 0;
    double tensor_tensor_sbuf_factor = 0;
    double tensor_tensor_psum_factor = 0;
    double tensor_tensor_two_byte_factor = 0;
    double gpsimd_tensor_tensor_factor = 0;
    double vector_copy_factor = 0;           ///< copies and tensor_scalar, SBUF to SBUF
    double vector_copy_two_byte_factor = 0;  ///< the same, all operands of two bytes, contiguous
    double vector_copy_two_byte_strided_factor = 0;  ///< strided, or one operand in PSUM
    double reciprocal_factor = 0;
    double scan_factor = 0;
    // DMA
    int dma_queues = 0;
    double dma_queue_bytes_per_ns = 0;
    double dma_descriptor_ns = 0;
    double dma_transfer_min_ns = 0;
    double dma_fixed_ns = 0;
    int dma_rows_per_queue = 0;
    double dma_far_stride_bytes = 0;
    double dma_far_descriptor_ns = 0;
    double dma_transpose_hbm_share = 0;   ///< of the DMA rate, HBM to SBUF; 0: as any load
    double dma_transpose_sbuf_share = 0;  ///< SBUF to SBUF
    int dma_in_flight = 0;
    // Ports
    int shared_sbuf_port = 0;  ///< 1: VectorE and GpSimdE take turns at SBUF
    int shared_psum_port = 0;  ///< 1: VectorE and ScalarE take turns at PSUM
    // Scheduling
    double result_latency_ns = 0;
    double startup_ns = 0;
    int engine_window = 0;
    int dma_window = 0;
    int rotation_extra_buffers = 0;
    int psum_reserved_banks = 0;  ///< left to the oldest instruction by those that overtake it
    // Compiler
    std::int64_t hoist_partition_bytes = 0;     ///< SBUF-fit test of hoisted arrays
    double hoist_spilled_gain = 0;              ///< above: hoisted and spilled all the same
    std::int64_t streamed_partition_bytes = 0;  ///< arrays of loads above it: loaded by slices
    std::int64_t resident_partition_bytes = 0;  ///< above: spilled
    double spill_dirty_weight = 0;  ///< what it costs to spill a tile, over dropping a loaded one
    std::int64_t working_slack_bytes = 0;  ///< SBUF beyond the residency: tiles overlap in it
    int vectorised_elements = 0;  ///< of tiny instructions that one vector instruction replaces
    std::int64_t psum_temporary_bytes = 0;  ///< largest temporary moved to PSUM
    int psum_temporary_min_elements = 0;    ///< smaller temporaries stay in SBUF
    int stream_reuse_instructions = 0;      ///< a re-loaded slice is reused within this distance
    std::int64_t identity_bytes = 0;        ///< implicit identity load of nl.matmul
    double peak_flops_bandwidth_ratio = 0;  ///< as neuron-profile prints it
    // Honesty: fractions of the latency by the confidence of a prediction
    double uncertainty_high = 0;
    double uncertainty_medium = 0;
    double uncertainty_low = 0;
};

}  // namespace accelopt::trainium
