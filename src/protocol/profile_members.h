#pragma once

#include <concepts>
#include <type_traits>

#include "protocol/profile_detail.h"

namespace accelopt::protocol {

// One list of members per type, for its JSON (both ways) and for the tables of an archive:
// visit_members(item, visit) calls visit(name, member) for each in turn.

template <typename T, typename Visitor>
requires std::same_as<std::remove_const_t<T>, Roofline>
void visit_members(T& r, Visitor visit) {
    visit("operations", r.operations);
    visit("flops", r.flops);
    visit("bytes", r.bytes);
    visit("arithmetic_intensity", r.arithmetic_intensity);
    visit("ridge_intensity", r.ridge_intensity);
    visit("peak_flops", r.peak_flops);
    visit("attainable_flops", r.attainable_flops);
    visit("achieved_flops", r.achieved_flops);
    visit("roof", r.roof);
}

template <typename T, typename Visitor>
requires std::same_as<std::remove_const_t<T>, LineProfile>
void visit_members(T& r, Visitor visit) {
    visit("line", r.line);
    visit("operation", r.operation);
    visit("instructions", r.instructions);
    visit("critical_ms", r.critical_ms);
    visit("tensor_ms", r.tensor_ms);
    visit("scalar_ms", r.scalar_ms);
    visit("vector_ms", r.vector_ms);
    visit("gpsimd_ms", r.gpsimd_ms);
    visit("dma_ms", r.dma_ms);
    visit("dma_bytes", r.dma_bytes);
}

template <typename T, typename Visitor>
requires std::same_as<std::remove_const_t<T>, CriticalPart>
void visit_members(T& r, Visitor visit) {
    visit("line", r.line);
    visit("operation", r.operation);
    visit("unit", r.unit);
    visit("cause", r.cause);
    visit("steps", r.steps);
    visit("ms", r.ms);
}

template <typename T, typename Visitor>
requires std::same_as<std::remove_const_t<T>, TensorTraffic>
void visit_members(T& r, Visitor visit) {
    visit("name", r.name);
    visit("kind", r.kind);
    visit("line", r.line);
    visit("bytes", r.bytes);
    visit("read_bytes", r.read_bytes);
    visit("written_bytes", r.written_bytes);
    visit("reads_per_byte", r.reads_per_byte);
}

template <typename T, typename Visitor>
requires std::same_as<std::remove_const_t<T>, Occupancy>
void visit_members(T& r, Visitor visit) {
    visit("capacity", r.capacity);
    visit("peak", r.peak);
    visit("mean", r.mean);
    visit("peak_at_ms", r.peak_at_ms);
    visit("series", r.series);
}

}  // namespace accelopt::protocol
