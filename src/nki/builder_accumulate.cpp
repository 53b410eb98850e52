#include <fmt/format.h>

#include "nki/builder.h"
#include "nki/failure.h"

/// The accumulation registers of the Scalar and the Vector Engine: one float32 per partition, in
/// which an instruction reduces its result along the free dims (nisa.reduce_cmd).
namespace accelopt::nki::interp {
namespace {

/// A request about registers, of the instruction `request`; it costs little, so it is implicit.
OpRequest register_request(const OpRequest& request, Opcode opcode) {
    OpRequest made;
    made.opcode = opcode;
    made.engine = request.engine;
    made.implicit = true;
    made.api = request.api;
    made.site = request.site;
    made.line = request.line;
    made.column = request.column;
    return made;
}

}  // namespace

Builder::Registers& Builder::registers_of(const OpRequest& request) {
    refuse_replay();  // what the registers hold is carried from one iteration to the next
    return registers_[request.engine == Engine::kScalar ? 0 : 1];
}

/// The registers as a hidden [128, 1] tile, or its first partitions.
Ref<Tile> Builder::register_tile(const OpRequest& request, std::int64_t partitions) {
    Registers& registers = registers_of(request);
    if (registers.tensor < 0) {
        TensorSpec spec;
        spec.shape = {limits_.partitions, 1};
        spec.name = request.engine == Engine::kScalar
                        ? "the accumulation registers of the Scalar Engine"
                        : "the accumulation registers of the Vector Engine";
        spec.context = 0;
        spec.hidden = true;
        registers.tensor = allocate(std::move(spec));
    }
    const Ref<Tile> tile = whole(registers.tensor);
    tile->dims[0].count = partitions;
    tile->whole = false;
    return tile;
}

/// Reduces `result` along its free dims into `target`, [P, 1].
void Builder::reduce_result(const OpRequest& request, const Ref<Tile>& result,
                            const Ref<Tile>& target) {
    OpRequest reduce = register_request(request, Opcode::kReduce);
    reduce.op0 = request.reduce_op;
    reduce.shape = target->shape();
    reduce.dtype = target->dtype;
    reduce.mask = request.mask;
    reduce.masked = request.masked;
    for (int d = 1; d < std::max(result->rank, 2); ++d)
        reduce.axes |= static_cast<std::uint8_t>(1U << d);
    reduce.add_source(result);
    emit(reduce, target);
}

/// Brings what the registers hold into their tile.
Ref<Tile> Builder::register_value(const OpRequest& request, std::int64_t partitions) {
    Registers& registers = registers_of(request);
    const Ref<Tile> tile = register_tile(request, partitions);
    if (!registers.copy) {
        if (registers.set) return tile;
        rejected("uninitialized_read", "the accumulation registers have not been reset")
            .remedy("start with nisa.reduce_cmd.reset_reduce")
            .raise();
    }
    // The reduction went straight to reduce_res; it is still there unless something wrote to it.
    if (states_[registers.copy->tensor].writes != registers.writes)
        unsupported("python_feature",
                    "the accumulation registers are read after reduce_res was overwritten")
            .remedy("give reduce_res in the last instruction of the accumulation only")
            .raise();
    OpRequest copy = register_request(request, Opcode::kCopy);
    copy.shape = tile->shape();
    copy.dtype = DType::kFloat32;
    copy.add_source(registers.copy);
    registers.copy = {};
    registers.set = true;
    emit(copy, tile);
    return tile;
}

void Builder::accumulate(const OpRequest& request, const Ref<Tile>& result) {
    if (request.reduce_command == ReduceCommand::kNone) return;
    Registers& registers = registers_of(request);
    const std::int64_t partitions = request.shape[0];
    const Ref<Tile>& into = request.reduce_into;
    if (request.reduce_command == ReduceCommand::kResetReduce && into &&
        (into->dtype == DType::kFloat32 || request.masked)) {
        reduce_result(request, result, into);
        registers.copy = into;
        registers.writes = states_[into->tensor].writes;
        return;
    }
    Ref<Tile> tile;
    if (request.reduce_command == ReduceCommand::kReset) {
        tile = register_tile(request, limits_.partitions);
        OpRequest reset = register_request(request, Opcode::kMemset);
        reset.engine = Engine::kVector;
        reset.implicit = false;
        reset.operand0.immediate =
            request.reduce_op == AluOp::kMax ? -std::numeric_limits<double>::infinity() : 0.0;
        reset.shape = tile->shape();
        emit(reset, tile);
        tile = register_tile(request, partitions);
    } else if (request.reduce_command == ReduceCommand::kResetReduce) {
        tile = register_tile(request, partitions);
        reduce_result(request, result, tile);
    } else {
        tile = register_value(request, partitions);
        if (request.reduce_command == ReduceCommand::kReduce) {
            OpRequest fresh = register_request(request, Opcode::kReduce);
            TensorSpec spec;
            spec.shape = {partitions, 1};
            spec.site = request.site;
            spec.line = request.line;
            const Ref<Tile> part = whole(allocate(std::move(spec)));
            reduce_result(request, result, part);
            fresh.opcode = Opcode::kTensorTensor;
            fresh.op0 = request.reduce_op;
            fresh.shape = tile->shape();
            fresh.add_source(tile);
            fresh.add_source(part);
            emit(fresh, tile);
        }
    }
    registers.set = true;
    registers.copy = {};
    if (!into) return;
    OpRequest read = register_request(request, Opcode::kCopy);
    read.shape = into->shape();
    read.dtype = into->dtype;
    read.add_source(tile);
    emit(read, into);
}

}  // namespace accelopt::nki::interp
