#include "trainium/timing.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "trainium/analysis.h"
#include "trainium/machine_fields.h"
#include "trainium/passes.h"
#include "trainium/profile_confidence.h"
#include "trainium/stream.h"
#include "trainium/stream_counters.h"
#include "trainium/timing_costs.h"
#include "trainium/timing_schedule.h"
#include "trainium/timing_simulate.h"

namespace accelopt::trainium {
namespace {

protocol::Profile counted(const Counters& counters, const Machine& machine) {
    protocol::Profile profile;
    profile.hbm_read_bytes = counters.hbm_read_bytes;
    profile.hbm_write_bytes = counters.hbm_write_bytes;
    profile.psum_read_bytes = counters.psum_read_bytes;
    profile.psum_write_bytes = counters.psum_write_bytes;
    profile.sbuf_read_bytes = counters.sbuf_read_bytes;
    profile.sbuf_write_bytes = counters.sbuf_write_bytes;
    profile.hardware_flops = counters.hardware_flops;
    profile.transpose_flops = counters.transpose_flops;
    profile.mm_arithmetic_intensity = counters.mm_arithmetic_intensity();
    profile.peak_flops_bandwidth_ratio = machine.peak_flops_bandwidth_ratio;
    return profile;
}

int busiest(const double (&ns)[kUnits]) {
    return static_cast<int>(std::max_element(std::begin(ns), std::end(ns)) - std::begin(ns));
}

void add_times(const SimulationResult& simulation, const Counters& counters, const Machine& machine,
               protocol::Profile& profile) {
    const double latency_ns = simulation.latency_ns;
    profile.latency = latency_ns / 1e6;
    auto active = [&](Unit unit) -> std::optional<double> {
        if (latency_ns <= 0) return std::nullopt;
        return simulation.busy_ns[static_cast<int>(unit)] / latency_ns;
    };
    profile.tensor_engine_active_time_percent = active(Unit::kPe);
    profile.scalar_engine_active_time_percent = active(Unit::kAct);
    profile.vector_engine_active_time_percent = active(Unit::kDve);
    profile.gpsimd_engine_active_time_percent = active(Unit::kPool);
    profile.dma_active_time_percent = active(Unit::kDma);
    if (latency_ns > 0) {
        profile.hfu_estimated_percent = static_cast<double>(counters.hardware_flops) /
                                        (latency_ns * 1e-9 * machine.tensor_peak_bf16_flops);
    }
    const int unit = busiest(simulation.busy_ns);
    if (simulation.busy_ns[unit] > 0) profile.bound = unit_name(static_cast<Unit>(unit));
}

void require_usable(const Machine& machine) {
    if (const std::string key = invalid_field(machine); !key.empty()) {
        throw Error(ErrorSource::kConfig, "machine",
                    "the machine description has no usable value for '" + key + "'");
    }
}

/// `program` is needed for the detail only.
PredictedProfile predict_lowered(Stream stream, const Machine& full_machine, Mechanisms mechanisms,
                                 const nki::Program* program, int rows) {
    require_usable(full_machine);
    const Machine machine = with_mechanisms(full_machine, mechanisms);
    PredictedProfile predicted;
    predicted.as_written = counted(count(stream), machine);
    const BusyTimes written = busy_times(stream, machine);
    const double roofline_ms = written.unit_ns[busiest(written.unit_ns)] / 1e6;
    predicted.as_written.stream_roofline_ms = roofline_ms;

    compile(stream, machine, mechanisms);
    const Counters counters = count(stream);
    const Schedule schedule = make_schedule(stream, machine);
    const bool detailed = program != nullptr && rows != 0;
    Timeline timeline;
    const SimulationResult simulation =
        simulate(stream, schedule, machine, nullptr, detailed ? &timeline : nullptr);
    protocol::Profile& compiled = predicted.compiled;
    compiled = counted(counters, machine);
    compiled.spill_save_bytes = counters.spill_save_bytes;
    compiled.spill_reload_bytes = counters.spill_reload_bytes;
    compiled.stream_roofline_ms = roofline_ms;
    add_times(simulation, counters, machine, compiled);
    Confidence confidence = judge(counters, busy_times(stream, machine), simulation);
    compiled.confidence = std::move(confidence.level);
    compiled.confidence_reasons = std::move(confidence.reasons);
    compiled.latency_uncertainty = uncertainty(compiled.confidence, machine);
    if (detailed) {
        compiled.detail = analyse({*program, stream, schedule, timeline}, machine, rows);
    }
    return predicted;
}

}  // namespace

PredictedProfile predict(const nki::Program& program, const Machine& machine,
                         Mechanisms mechanisms) {
    require_usable(machine);
    return predict_lowered(lower(program, machine), machine, mechanisms, nullptr, 0);
}

PredictedProfile predict_in_detail(const nki::Program& program, const Machine& machine, int rows) {
    require_usable(machine);
    return predict_lowered(lower(program, machine), machine, {}, &program, rows);
}

PredictedProfile predict_stream(Stream lowered, const Machine& machine, Mechanisms mechanisms) {
    return predict_lowered(std::move(lowered), machine, mechanisms, nullptr, 0);
}

}  // namespace accelopt::trainium
