#include <fmt/format.h>

#include "nki/builder.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

[[noreturn]] void wrong_memory(const std::string& operand, const Tile& tile, const char* expected,
                               const char* remedy) {
    rejected("unsupported_memory", fmt::format("{} must be in {}, but is in {}", operand, expected,
                                               to_string(tile.buffer)))
        .shape(tile.shape())
        .remedy(remedy)
        .raise();
}

/// `operand` makes the operand's description, which only a finding needs.
template <typename Operand>
void expect_on_chip(const Operand& operand, const Tile& tile) {
    if (tile.buffer == Buffer::kHbm)
        wrong_memory(operand(), tile, "sbuf or psum",
                     "load it with nl.load first; results go to HBM with nl.store");
}

template <typename Operand>
void expect_sbuf(const Operand& operand, const Tile& tile) {
    if (tile.buffer != Buffer::kSbuf)
        wrong_memory(operand(), tile, "sbuf", "copy it to an SBUF tile first (nl.copy)");
}

}  // namespace

void Builder::check_memories(const OpRequest& request, const Tile& destination) const {
    const auto source = [&](int k) {
        return [&, k] { return fmt::format("operand '{}'", describe(*request.src[k])); };
    };
    const auto called = [](const char* name) { return [name] { return std::string(name); }; };
    switch (request.opcode) {
        case Opcode::kLoad:
            if (request.src[0]->buffer != Buffer::kHbm)
                wrong_memory(source(0)(), *request.src[0], "hbm", "on-chip tiles need no load");
            expect_sbuf(called("the result of a load"), destination);
            return;
        case Opcode::kStore:
            if (destination.buffer != Buffer::kHbm)
                wrong_memory("the destination of a store", destination, "hbm",
                             "assign to an on-chip tile with tile[...] = value");
            expect_on_chip(source(0), *request.src[0]);
            return;
        case Opcode::kScatter:
        case Opcode::kDmaCopy:
            if (destination.buffer == Buffer::kPsum)
                wrong_memory("the destination of a DMA", destination, "hbm or sbuf", "");
            if (request.src[0]->buffer == Buffer::kPsum)
                wrong_memory(source(0)(), *request.src[0], "hbm or sbuf", "");
            return;
        case Opcode::kMatmul:
            expect_sbuf(source(0), *request.src[0]);
            expect_sbuf(source(1), *request.src[1]);
            if (destination.buffer != Buffer::kPsum)
                wrong_memory("the result of a matmul", destination, "psum",
                             "accumulate in PSUM, then copy");
            return;
        case Opcode::kTranspose:
            if (request.engine == Engine::kVector || request.engine == Engine::kDma) break;
            expect_sbuf(source(0), *request.src[0]);
            if (destination.buffer != Buffer::kPsum)
                wrong_memory("the result of a transpose", destination, "psum", "");
            return;
        default:
            break;
    }
    expect_on_chip(called("the result"), destination);
    for (int k = 0; k < request.sources; ++k) expect_on_chip(source(k), *request.src[k]);
    for (const ScalarRequest* scalar :
         {&request.scale, &request.bias, &request.operand0, &request.operand1})
        if (scalar->tile) expect_on_chip(called("a vector operand"), *scalar->tile);
}

void Builder::check_output(const Tile& destination) const {
    const Tensor& t = tensor(destination.tensor);
    if (t.role != TensorRole::kInput && t.role != TensorRole::kConstant) return;
    rejected("cannot_update_immutable_parameter",
             fmt::format("cannot write to '{}': kernel inputs are immutable", t.name))
        .shape(t.shape)
        .remedy("store to a tensor made with nl.ndarray(..., buffer=nl.shared_hbm)")
        .raise();
}

void Builder::check_start_partition(const View& view) const {
    const Tensor& t = tensor(view.tensor);
    const std::int64_t start = view.offset / t.free_elements;
    const std::int64_t count = view.dims[0].count;
    // facts: more than 64 partitions start at 0, more than 32 at 0 or 64, others at 0/32/64/96.
    const std::int64_t unit = count > 64 ? 128 : count > 32 ? 64 : 32;
    if (start % unit == 0 && start < 128) return;
    rejected("start_partition",
             fmt::format("'{}' is accessed from partition {} on; an access to {} partitions must "
                         "start at {}",
                         t.name.empty() ? "tile" : t.name, start, count,
                         unit == 128  ? "0"
                         : unit == 64 ? "0 or 64"
                                      : "0, 32, 64 or 96"))
        .shape({count, view.free_count()})
        .limit(unit)
        .remedy("move the rows to a legal start partition, or use the free dimension instead")
        .raise();
}

/// `whole`: the instruction processes the whole tile, of which the operation is a part.
void Builder::check_engine(const Operation& operation, bool whole) const {
    const auto check = [&](const View& view) {
        const Buffer buffer = tensor(view.tensor).buffer;
        if (buffer == Buffer::kHbm) return;
        if (!whole) check_start_partition(view);
        if (buffer == Buffer::kPsum && operation.engine == Engine::kGpSimd)
            rejected("unsupported_memory", "GpSimd Engine cannot access PSUM")
                .remedy("use the Vector or Scalar Engine")
                .raise();
    };
    check(operation.dst);
    for (int k = 0; k < operation.sources; ++k) check(operation.src[k]);
    for (const ScalarOperand* scalar :
         {&operation.scale, &operation.bias, &operation.operand0, &operation.operand1})
        if (scalar->vector) check(scalar->view);
}

void Builder::dependency(const View& view, const AccessTracker::Conflict& conflict,
                         bool write) const {
    const Loop& loop = program_.loops[conflict.loop];
    const Tensor& t = tensor(view.tensor);
    const std::string name = t.name.empty() ? "tile" : t.name;
    const std::string what =
        !write ? fmt::format("an iteration of '{}' reads what another one writes to '{}'",
                             loop.variable, name)
        : conflict.after_read
            ? fmt::format("an iteration of '{}' writes to what another one reads of '{}'",
                          loop.variable, name)
            : fmt::format("different iterations of '{}' write to the same part of '{}'",
                          loop.variable, name);
    rejected("unexpected_output_dependencies",
             fmt::format("{} (affine_range of line {}, earlier access in line {})", what, loop.line,
                         conflict.line))
        .shape(t.shape)
        .remedy(
            "index the tile by the loop variable, create it inside the loop, accumulate with "
            "+=, or use nl.sequential_range")
        .raise();
}

void Builder::track_read(const View& view, int context, int line) {
    const TensorState& state = states_[view.tensor];
    if (state.hidden) return;
    if (!loops_.affine_between(state.context, context)) return;
    const std::int64_t before = accesses_.bytes();
    const AccessTracker::Conflict found =
        accesses_.on_read(view, program_.tensors[view.tensor], context, line);
    charge_memory(accesses_.bytes() - before);
    if (found.loop >= 0) dependency(view, found, false);
}

void Builder::track(const Operation& operation, AluOp combines) {
    const int context = loops_.context();
    if (operation.accumulate && operation.opcode == Opcode::kMatmul) combines = AluOp::kAdd;
    for (int k = 0; k < operation.sources; ++k) {
        if (combines != AluOp::kNone && operation.src[k] == operation.dst) continue;
        track_read(operation.src[k], context, operation.line);
    }
    for (const ScalarOperand* scalar :
         {&operation.scale, &operation.bias, &operation.operand0, &operation.operand1})
        if (scalar->vector) track_read(scalar->view, context, operation.line);
    const TensorState& state = states_[operation.dst.tensor];
    if (state.hidden || !loops_.affine_between(state.context, context)) return;
    const std::int64_t before = accesses_.bytes();
    const AccessTracker::Conflict found = accesses_.on_write(
        operation.dst, program_.tensors[operation.dst.tensor], context, combines, operation.line);
    charge_memory(accesses_.bytes() - before);
    if (found.loop >= 0) dependency(operation.dst, found, true);
}

}  // namespace accelopt::nki::interp
