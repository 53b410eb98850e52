#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "trainium/machine.h"

namespace accelopt::trainium {

/// One effect that the model knows: a pass of the modelled compiler, or a rule of the timing. Each
/// can be switched off, to see what it is worth. A new one is a line here and a line in
/// kMechanisms.
enum class Mechanism : std::uint8_t {
    kMergeValues,
    kHoistFit,
    kHoistSpilled,
    kDeadCode,
    kStreamLoads,
    kRenameTiles,
    kFoldCopies,
    kPsumBroadcasts,
    kPsumTemporaries,
    kVectorise,
    kFuseLoops,
    kSpills,
    kReschedule,
    kDmaLookAhead,
    kRotation,
    kPsumBanks,
    kPsumOperand,
    kMatmulOverhead,
    kInstructionOverhead,
    kReciprocal,
    kDmaDescriptor,
    kFarStride,
    kDmaRows,
    kSharedPorts,
    kLatencies,
};

/// What is known of a mechanism.
struct MechanismInfo {
    Mechanism mechanism;
    std::string_view name;      ///< as the command line spells it
    std::string_view what;      ///< what it does
    std::string_view evidence;  ///< why the model has it
    /// Makes the constants of a rule ineffective; nullptr for what asks Mechanisms::has itself.
    void (*neutralise)(Machine&) = nullptr;
};

/// Large enough to mean "no limit", small enough to be added to.
inline constexpr int kNoLimit = 1 << 28;

/// Every mechanism, in the order of the enumeration: first the passes, in the order in which they
/// run, then the rules of the timing. Evidence is worded in README.md.
inline constexpr std::array kMechanisms{
    MechanismInfo{Mechanism::kMergeValues, "merge", "merges and hoists equal loads and transposes",
                  "measured reads and transposes of 8 baselines"},
    MechanismInfo{Mechanism::kHoistFit, "hoist_fit", "hoisted arrays must fit SBUF",
                  "matmul re-loads its 160 KiB slab, transposes 12 x 1280 tiles",
                  [](Machine& m) { m.hoist_partition_bytes = std::int64_t{1} << 40; }},
    MechanismInfo{Mechanism::kHoistSpilled, "hoist_spilled",
                  "hoists past SBUF and spills when that relieves the busiest unit",
                  "lora transposes once and spills; matmul, bound by DMA, transposes 12 times"},
    MechanismInfo{Mechanism::kDeadCode, "dead_code", "removes what nothing reads",
                  "follows merging; no baseline stores less than it computes"},
    MechanismInfo{Mechanism::kStreamLoads, "stream_loads", "re-loads slabs that do not fit",
                  "matmul reads 9.06 GB, exactly"},
    MechanismInfo{Mechanism::kRenameTiles, "rename_tiles",
                  "rewritten buffers rotate instead of waiting for their last reader",
                  "average pooling of nki-samples: 1.3 us a window that is loaded and summed"},
    MechanismInfo{Mechanism::kFoldCopies, "fold_copies",
                  "copies and casts of an activation's result cost no pass",
                  "attention of nki-samples (its authors count on it): 0.54 to 0.68 ms measured"},
    MechanismInfo{Mechanism::kPsumBroadcasts, "psum_broadcasts",
                  "reads broadcasts of one bank where TensorE left them",
                  "Mamba with 512-column tiles: 3.4 us a step, two of four VectorE passes halved"},
    MechanismInfo{Mechanism::kPsumTemporaries, "psum_temporaries",
                  "moves ScalarE temporaries of a tensor_tensor to PSUM",
                  "adamw counts three PSUM writes per tile"},
    MechanismInfo{Mechanism::kVectorise, "vectorise",
                  "loops of independent tiny instructions cost one instruction's overhead",
                  "trial of the feasibility study on other kernels: some such loops are far below "
                  "the sum of their overheads"},
    MechanismInfo{Mechanism::kFuseLoops, "fuse_loops",
                  "neighbouring loops take turns where SBUF would overflow between them",
                  "swiglu spills 16 MiB of transposes, nothing of the 48 MiB between its loops"},
    MechanismInfo{Mechanism::kSpills, "spills", "spills tiles beyond the SBUF residency",
                  "mamba keeps six tiles of 28 KiB and spills one accumulator of two"},
    MechanismInfo{Mechanism::kReschedule, "reschedule", "engines look ahead in program order",
                  "in-order engines: 21 % error on ten baselines, 5 % with look-ahead",
                  [](Machine& m) { m.engine_window = 1; }},
    MechanismInfo{Mechanism::kDmaLookAhead, "dma_look_ahead", "DMAs look ahead in program order",
                  "goes with rescheduling; not identified on its own",
                  [](Machine& m) { m.dma_window = 1; }},
    MechanismInfo{Mechanism::kRotation, "rotation", "arrays of DMAs rotate over a few buffers",
                  "2 or 64 buffers move silu by 17 points",
                  [](Machine& m) { m.rotation_extra_buffers = kNoLimit; }},
    MechanismInfo{Mechanism::kPsumBanks, "psum_banks", "PSUM has eight banks",
                  "architecture guide; without the limit matmuls overlap more than they can",
                  [](Machine& m) { m.psum_partition_bytes = m.psum_bank_bytes * kNoLimit; }},
    MechanismInfo{Mechanism::kPsumOperand, "psum_operand",
                  "tensor_tensor is twice as fast with an operand in PSUM",
                  "nki.isa reference; rope takes 2 n + 107 cycles from SBUF",
                  [](Machine& m) { m.tensor_tensor_psum_factor = m.tensor_tensor_sbuf_factor; }},
    MechanismInfo{Mechanism::kMatmulOverhead, "matmul_overhead", "extra columns per matmul pass",
                  "transpose_matmul: 844 to 853 ns against 731 ideal",
                  [](Machine& m) { m.tensor_overhead_columns = 0; }},
    MechanismInfo{Mechanism::kInstructionOverhead, "instruction_overhead",
                  "fixed cycles per elementwise instruction",
                  "nki.isa reference; mamba's 896 copies at + 73 cycles",
                  [](Machine& m) {
                      m.scalar_overhead_cycles = 0;
                      m.vector_overhead_cycles = 0;
                      m.gpsimd_overhead_cycles = 0;
                  }},
    MechanismInfo{Mechanism::kReciprocal, "reciprocal", "VectorE's reciprocal is slow",
                  "silu and swiglu: 2.6 n (the reference's 8 n is refuted)",
                  [](Machine& m) { m.reciprocal_factor = 1; }},
    MechanismInfo{Mechanism::kDmaDescriptor, "dma_descriptor", "fixed time per contiguous run",
                  "matmul 263 GB/s, bmm 250 GB/s", [](Machine& m) { m.dma_descriptor_ns = 0; }},
    MechanismInfo{Mechanism::kFarStride, "far_stride", "runs far apart in HBM cost more",
                  "silu and rope only", [](Machine& m) { m.dma_far_descriptor_ns = 0; }},
    MechanismInfo{Mechanism::kDmaRows, "dma_rows", "few rows use few DMA queues",
                  "set with the DMA rate on the baselines",
                  [](Machine& m) { m.dma_rows_per_queue = 1; }},
    MechanismInfo{Mechanism::kSharedPorts, "shared_ports",
                  "VectorE takes turns with GpSimdE at SBUF, with ScalarE at PSUM",
                  "architecture guide; moves adamw and attention by 1 %",
                  [](Machine& m) { m.shared_sbuf_port = m.shared_psum_port = 0; }},
    MechanismInfo{Mechanism::kLatencies, "latencies",
                  "latency of results and of DMAs, start-up of a kernel",
                  "performance guide: 189 ns for one ScalarE instruction, about 2 us per DMA",
                  [](Machine& m) {
                      m.result_latency_ns = 0;
                      m.dma_fixed_ns = 0;
                      m.startup_ns = 0;
                  }},
};

/// Which mechanisms a prediction uses; all of them unless some are taken away.
class Mechanisms {
  public:
    constexpr Mechanisms() = default;  ///< all
    static constexpr Mechanisms none() { return Mechanisms(0); }

    constexpr bool has(Mechanism m) const { return (bits_ & bit(m)) != 0; }
    constexpr Mechanisms without(Mechanism m) const { return Mechanisms(bits_ & ~bit(m)); }
    constexpr Mechanisms with(Mechanism m) const { return Mechanisms(bits_ | bit(m)); }
    constexpr bool operator==(const Mechanisms&) const = default;

  private:
    static constexpr std::uint64_t bit(Mechanism m) {
        return std::uint64_t{1} << static_cast<unsigned>(m);
    }
    static constexpr std::uint64_t all() { return ~std::uint64_t{0}; }
    constexpr explicit Mechanisms(std::uint64_t bits) : bits_(bits) {}

    std::uint64_t bits_ = all();
};

namespace detail {
constexpr bool in_order() {
    for (std::size_t i = 0; i < kMechanisms.size(); ++i)
        if (kMechanisms[i].mechanism != static_cast<Mechanism>(i)) return false;
    return true;
}
}  // namespace detail
static_assert(detail::in_order(), "kMechanisms lists the mechanisms in the enumeration's order");
static_assert(kMechanisms.size() <= 64);

/// Returns the machine with the constants of the rules that are off made ineffective.
inline Machine with_mechanisms(Machine machine, Mechanisms mechanisms) {
    for (const MechanismInfo& info : kMechanisms)
        if (info.neutralise != nullptr && !mechanisms.has(info.mechanism)) info.neutralise(machine);
    return machine;
}

}  // namespace accelopt::trainium
