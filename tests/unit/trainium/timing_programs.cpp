#include "timing_programs.h"

#include <map>
#include <stdexcept>

#include "trainium/machine_fields.h"

namespace accelopt::trainium::testing {

using nki::Buffer;
using nki::Opcode;
using nki::View;

Machine trn1() {
    static const std::map<std::string, double> kValues = {
        {"core_version", 2},
        {"partitions", 128},
        {"sbuf_partition_bytes", 192 * 1024},
        {"psum_partition_bytes", 16 * 1024},
        {"psum_bank_bytes", 2048},
        {"peak_hbm_bytes_per_s", 440.2e9},
        {"peak_matmul_flops", 23.75e12},
        {"peak_vector_flops", 286.8e9},
        {"tensor_ghz", 2.8},
        {"vector_ghz", 1.12},
        {"scalar_ghz", 1.4},
        {"gpsimd_ghz", 1.4},
        {"tensor_fp32_passes", 4},
        {"tensor_fp32_transpose_passes", 4},
        {"tensor_onezero_passes", 2},
        {"tensor_bf16_passes", 1},
        {"tensor_overhead_columns", 80},
        {"tensor_min_columns", 64},
        {"tensor_peak_bf16_flops", 91.7504e12},
        {"scalar_overhead_cycles", 64},
        {"vector_overhead_cycles", 64},
        {"gpsimd_overhead_cycles", 150},
        {"tensor_tensor_sbuf_factor", 2},
        {"tensor_tensor_psum_factor", 1},
        {"tensor_tensor_two_byte_factor", 1},
        {"gpsimd_tensor_tensor_factor", 2},
        {"vector_copy_factor", 1},
        {"vector_copy_two_byte_factor", 1},
        {"vector_copy_two_byte_strided_factor", 1},
        {"reciprocal_factor", 2.6},
        {"scan_factor", 2},
        {"dma_queues", 16},
        {"dma_queue_bytes_per_ns", 17},
        {"dma_descriptor_ns", 15},
        {"dma_transfer_min_ns", 1000},
        {"dma_fixed_ns", 2000},
        {"dma_rows_per_queue", 8},
        {"dma_far_stride_bytes", 512 * 1024},
        {"dma_far_descriptor_ns", 355},
        {"dma_transpose_hbm_share", 0},
        {"dma_transpose_sbuf_share", 0},
        {"dma_in_flight", 64},
        {"shared_sbuf_port", 1},
        {"shared_psum_port", 1},
        {"result_latency_ns", 160},
        {"startup_ns", 8000},
        {"engine_window", 64},
        {"dma_window", 16},
        {"rotation_extra_buffers", 3},
        {"psum_reserved_banks", 2},
        {"hoist_partition_bytes", 192 * 1024},
        {"hoist_spilled_gain", 0.05},
        {"streamed_partition_bytes", 156 * 1024},
        {"resident_partition_bytes", 172 * 1024},
        {"spill_dirty_weight", 4},
        {"working_slack_bytes", 11 * 1024},
        {"vectorised_elements", 512},
        {"psum_temporary_bytes", 2048},
        {"psum_temporary_min_elements", 64},
        {"stream_reuse_instructions", 48},
        {"identity_bytes", 65536},
        {"peak_flops_bandwidth_ratio", 223.781463973542},
        {"uncertainty_high", 0.10},
        {"uncertainty_medium", 0.10},
        {"uncertainty_low", 0.20},
    };
    Machine machine;
    machine.name = "trn1";
    for (const MachineField& field : kMachineFields)
        set_field(machine, field, kValues.at(std::string(field.key)));
    if (kValues.size() != kMachineFields.size()) throw std::logic_error("unknown machine key");
    return machine;
}

nki::TensorId ProgramBuilder::hbm(std::vector<std::int64_t> shape, nki::TensorRole role,
                                  nki::DType dtype) {
    nki::Tensor t;
    t.id = static_cast<nki::TensorId>(program.tensors.size());
    t.buffer = Buffer::kHbm;
    t.role = role;
    t.dtype = dtype;
    t.partitions = shape.front();
    for (std::size_t d = 1; d < shape.size(); ++d) t.free_elements *= shape[d];
    t.shape = std::move(shape);
    if (role == nki::TensorRole::kInput) t.argument = t.id;
    if (role == nki::TensorRole::kOutput) program.outputs.push_back(t.id);
    program.tensors.push_back(std::move(t));
    return program.tensors.back().id;
}

nki::TensorId ProgramBuilder::tile(std::int64_t partitions, std::int64_t free, int site,
                                   Buffer buffer, std::int64_t blocks, nki::DType dtype) {
    nki::Tensor t;
    t.id = static_cast<nki::TensorId>(program.tensors.size());
    t.buffer = buffer;
    t.dtype = dtype;
    t.shape = {blocks, partitions, free};
    t.partition_axis = 1;
    t.blocks = blocks;
    t.partitions = partitions;
    t.free_elements = free;
    t.site = site;
    program.tensors.push_back(std::move(t));
    return program.tensors.back().id;
}

View ProgramBuilder::view(nki::TensorId tensor, std::int64_t offset, nki::Dim rows,
                          nki::Dim columns, std::int64_t block) const {
    View v;
    v.tensor = tensor;
    v.block = block;
    v.offset = offset;
    v.rank = 2;
    v.dims[0] = rows;
    v.dims[1] = columns;
    return v;
}

View ProgramBuilder::window(nki::TensorId tensor, std::int64_t row, std::int64_t rows,
                            std::int64_t column, std::int64_t columns, std::int64_t block) const {
    const std::int64_t pitch = program.tensors[tensor].free_elements;
    return view(tensor, row * pitch + column, {pitch, rows}, {1, columns}, block);
}

View ProgramBuilder::whole(nki::TensorId tensor, std::int64_t block) const {
    const nki::Tensor& t = program.tensors[tensor];
    return window(tensor, 0, t.partitions, 0, t.free_elements, block);
}

nki::Operation& ProgramBuilder::add(Opcode opcode, const View& dst,
                                    std::initializer_list<View> sources) {
    nki::Operation op;
    op.opcode = opcode;
    op.dst = dst;
    op.line = static_cast<int>(program.operations.size()) + 1;
    for (const View& source : sources) op.src[op.sources++] = source;
    program.operations.push_back(op);
    return program.operations.back();
}

nki::Operation& ProgramBuilder::activation(const View& dst, nki::ActFunction function,
                                           const View& src) {
    nki::Operation& op = add(Opcode::kActivation, dst, {src});
    op.function = function;
    op.scale.immediate = 1.0;
    return op;
}

nki::Operation& ProgramBuilder::scalar(const View& dst, nki::AluOp alu, const View& src,
                                       double immediate) {
    nki::Operation& op = add(Opcode::kTensorScalar, dst, {src});
    op.op0 = alu;
    op.operand0.immediate = immediate;
    return op;
}

nki::Operation& ProgramBuilder::scalar(const View& dst, nki::AluOp alu, const View& src,
                                       const View& vector) {
    nki::Operation& op = scalar(dst, alu, src, 0.0);
    op.operand0.vector = true;
    op.operand0.view = vector;
    return op;
}

nki::Operation& ProgramBuilder::tensor_tensor(const View& dst, nki::AluOp alu, const View& a,
                                              const View& b) {
    nki::Operation& op = add(Opcode::kTensorTensor, dst, {a, b});
    op.op0 = alu;
    return op;
}

nki::Operation& ProgramBuilder::matmul(const View& dst, const View& stationary, const View& moving,
                                       bool accumulate) {
    nki::Operation& op = add(Opcode::kMatmul, dst, {stationary, moving});
    op.accumulate = accumulate;
    return op;
}

nki::Operation& ProgramBuilder::transpose(const View& dst, const View& src, bool implicit) {
    nki::Operation& op = add(Opcode::kTranspose, dst, {src});
    op.implicit = implicit;
    return op;
}

nki::Operation& ProgramBuilder::reduce(const View& dst, nki::AluOp alu, const View& src) {
    nki::Operation& op = add(Opcode::kReduce, dst, {src});
    op.op0 = alu;
    op.axes = 2;
    return op;
}

Instruction dma(std::int64_t bytes, std::int64_t run, std::int32_t rows, std::int64_t stride) {
    Instruction instruction;
    instruction.op = StreamOp::kLoad;
    instruction.bytes = bytes;
    instruction.run_bytes = run;
    instruction.rows = rows;
    instruction.stride_bytes = stride;
    return instruction;
}

nki::MaskTerm rows_below(std::int64_t row, std::int64_t limit) {
    nki::MaskTerm term;
    term.constant = limit - 1 - row;
    term.coefficients[0] = -1;
    return term;
}

}  // namespace accelopt::trainium::testing
