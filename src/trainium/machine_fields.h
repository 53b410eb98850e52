#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "trainium/machine.h"

namespace accelopt::trainium {

/// Which numeric member of Machine a key of configs/hardware/TARGET.yaml fills.
using MachineMember = std::variant<double Machine::*, int Machine::*, std::int64_t Machine::*>;

/// One key of a machine description. Keys are spelt exactly like the members.
struct MachineField {
    std::string_view key;
    MachineMember member;
    bool may_be_zero = false;  ///< else the value must be positive
};

/// Every numeric member of Machine: the loader reads these keys and no others, so that a missing
/// or an unknown key is detected without this folder knowing YAML.
inline constexpr std::array kMachineFields{
    MachineField{"core_version", &Machine::core_version},
    MachineField{"partitions", &Machine::partitions},
    MachineField{"sbuf_partition_bytes", &Machine::sbuf_partition_bytes},
    MachineField{"psum_partition_bytes", &Machine::psum_partition_bytes},
    MachineField{"psum_bank_bytes", &Machine::psum_bank_bytes},
    MachineField{"peak_hbm_bytes_per_s", &Machine::peak_hbm_bytes_per_s},
    MachineField{"peak_matmul_flops", &Machine::peak_matmul_flops},
    MachineField{"peak_vector_flops", &Machine::peak_vector_flops},
    MachineField{"tensor_ghz", &Machine::tensor_ghz},
    MachineField{"vector_ghz", &Machine::vector_ghz},
    MachineField{"scalar_ghz", &Machine::scalar_ghz},
    MachineField{"gpsimd_ghz", &Machine::gpsimd_ghz},
    MachineField{"tensor_fp32_passes", &Machine::tensor_fp32_passes},
    MachineField{"tensor_fp32_transpose_passes", &Machine::tensor_fp32_transpose_passes},
    MachineField{"tensor_onezero_passes", &Machine::tensor_onezero_passes},
    MachineField{"tensor_bf16_passes", &Machine::tensor_bf16_passes},
    MachineField{"tensor_overhead_columns", &Machine::tensor_overhead_columns, true},
    MachineField{"tensor_min_columns", &Machine::tensor_min_columns, true},
    MachineField{"tensor_peak_bf16_flops", &Machine::tensor_peak_bf16_flops},
    MachineField{"scalar_overhead_cycles", &Machine::scalar_overhead_cycles, true},
    MachineField{"vector_overhead_cycles", &Machine::vector_overhead_cycles, true},
    MachineField{"gpsimd_overhead_cycles", &Machine::gpsimd_overhead_cycles, true},
    MachineField{"tensor_tensor_sbuf_factor", &Machine::tensor_tensor_sbuf_factor},
    MachineField{"tensor_tensor_psum_factor", &Machine::tensor_tensor_psum_factor},
    MachineField{"tensor_tensor_two_byte_factor", &Machine::tensor_tensor_two_byte_factor},
    MachineField{"gpsimd_tensor_tensor_factor", &Machine::gpsimd_tensor_tensor_factor},
    MachineField{"vector_copy_factor", &Machine::vector_copy_factor},
    MachineField{"vector_copy_two_byte_factor", &Machine::vector_copy_two_byte_factor},
    MachineField{"vector_copy_two_byte_strided_factor",
                 &Machine::vector_copy_two_byte_strided_factor},
    MachineField{"reciprocal_factor", &Machine::reciprocal_factor},
    MachineField{"scan_factor", &Machine::scan_factor},
    MachineField{"dma_queues", &Machine::dma_queues},
    MachineField{"dma_queue_bytes_per_ns", &Machine::dma_queue_bytes_per_ns},
    MachineField{"dma_descriptor_ns", &Machine::dma_descriptor_ns, true},
    MachineField{"dma_transfer_min_ns", &Machine::dma_transfer_min_ns, true},
    MachineField{"dma_fixed_ns", &Machine::dma_fixed_ns, true},
    MachineField{"dma_rows_per_queue", &Machine::dma_rows_per_queue},
    MachineField{"dma_far_stride_bytes", &Machine::dma_far_stride_bytes},
    MachineField{"dma_far_descriptor_ns", &Machine::dma_far_descriptor_ns, true},
    MachineField{"dma_transpose_hbm_share", &Machine::dma_transpose_hbm_share, true},
    MachineField{"dma_transpose_sbuf_share", &Machine::dma_transpose_sbuf_share, true},
    MachineField{"dma_in_flight", &Machine::dma_in_flight},
    MachineField{"shared_sbuf_port", &Machine::shared_sbuf_port, true},
    MachineField{"shared_psum_port", &Machine::shared_psum_port, true},
    MachineField{"result_latency_ns", &Machine::result_latency_ns, true},
    MachineField{"startup_ns", &Machine::startup_ns, true},
    MachineField{"engine_window", &Machine::engine_window},
    MachineField{"dma_window", &Machine::dma_window},
    MachineField{"rotation_extra_buffers", &Machine::rotation_extra_buffers, true},
    MachineField{"psum_reserved_banks", &Machine::psum_reserved_banks, true},
    MachineField{"hoist_partition_bytes", &Machine::hoist_partition_bytes, true},
    MachineField{"hoist_spilled_gain", &Machine::hoist_spilled_gain, true},
    MachineField{"streamed_partition_bytes", &Machine::streamed_partition_bytes},
    MachineField{"resident_partition_bytes", &Machine::resident_partition_bytes},
    MachineField{"spill_dirty_weight", &Machine::spill_dirty_weight},
    MachineField{"working_slack_bytes", &Machine::working_slack_bytes, true},
    MachineField{"vectorised_elements", &Machine::vectorised_elements, true},
    MachineField{"psum_temporary_bytes", &Machine::psum_temporary_bytes, true},
    MachineField{"psum_temporary_min_elements", &Machine::psum_temporary_min_elements, true},
    MachineField{"stream_reuse_instructions", &Machine::stream_reuse_instructions, true},
    MachineField{"identity_bytes", &Machine::identity_bytes, true},
    MachineField{"peak_flops_bandwidth_ratio", &Machine::peak_flops_bandwidth_ratio},
    MachineField{"uncertainty_high", &Machine::uncertainty_high, true},
    MachineField{"uncertainty_medium", &Machine::uncertainty_medium, true},
    MachineField{"uncertainty_low", &Machine::uncertainty_low, true},
};

/// True when the field holds a whole number (int or int64 member).
constexpr bool is_integer(const MachineField& field) { return field.member.index() != 0; }

/// Returns the value of one field.
inline double get_field(const Machine& machine, const MachineField& field) {
    return std::visit([&](auto member) { return static_cast<double>(machine.*member); },
                      field.member);
}

/// Sets one field; an integer member takes the value truncated, so check is_integer first.
inline void set_field(Machine& machine, const MachineField& field, double value) {
    std::visit(
        [&](auto member) {
            using Value = std::remove_reference_t<decltype(machine.*member)>;
            machine.*member = static_cast<Value>(value);
        },
        field.member);
}

/// Returns the field with this key, or nullptr.
inline const MachineField* find_field(std::string_view key) {
    const auto* found = std::find_if(kMachineFields.begin(), kMachineFields.end(),
                                     [&](const MachineField& field) { return field.key == key; });
    return found == kMachineFields.end() ? nullptr : found;
}

/// Returns all keys, in table order.
inline std::vector<std::string> machine_keys() {
    std::vector<std::string> keys;
    for (const MachineField& field : kMachineFields) keys.emplace_back(field.key);
    return keys;
}

/// Returns the key of the first value outside its range (negative, NaN, or zero where a positive
/// value is needed), or "" when the machine can be simulated. An infinite value is out of range.
inline std::string invalid_field(const Machine& machine) {
    constexpr double kLargest = 1e18;
    for (const MachineField& field : kMachineFields) {
        const double value = get_field(machine, field);
        const bool positive = value > 0 && value < kLargest;
        if (!positive && !(field.may_be_zero && value == 0)) return std::string(field.key);
    }
    return {};
}

}  // namespace accelopt::trainium
