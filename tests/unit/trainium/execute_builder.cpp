#include "unit/trainium/execute_builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainium/number_format.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium::testing {

using nki::DType;

nki::TensorId ProgramBuilder::hbm(const std::vector<std::int64_t>& shape, DType dtype,
                                  nki::TensorRole role) {
    nki::Tensor tensor;
    tensor.id = static_cast<nki::TensorId>(program.tensors.size());
    tensor.name = "hbm" + std::to_string(tensor.id);
    tensor.buffer = nki::Buffer::kHbm;
    tensor.role = role;
    tensor.dtype = dtype;
    tensor.shape = shape;
    tensor.partitions = shape.empty() ? 1 : shape[0];
    for (std::size_t d = 1; d < shape.size(); ++d) tensor.free_elements *= shape[d];
    program.tensors.push_back(tensor);
    return tensor.id;
}

nki::TensorId ProgramBuilder::input(const std::vector<std::int64_t>& shape, DType dtype) {
    const auto id = hbm(shape, dtype, nki::TensorRole::kInput);
    int arguments = 0;
    for (const nki::Tensor& tensor : program.tensors) {
        if (tensor.role == nki::TensorRole::kInput) ++arguments;
    }
    program.tensors[id].argument = arguments - 1;
    return id;
}

nki::TensorId ProgramBuilder::output(const std::vector<std::int64_t>& shape, DType dtype) {
    const auto id = hbm(shape, dtype, nki::TensorRole::kOutput);
    program.outputs.push_back(id);
    return id;
}

nki::TensorId ProgramBuilder::scratch(const std::vector<std::int64_t>& shape, DType dtype) {
    return hbm(shape, dtype, nki::TensorRole::kScratch);
}

nki::TensorId ProgramBuilder::constant(const std::vector<std::int64_t>& shape,
                                       std::vector<float> values, DType dtype) {
    const auto id = hbm(shape, dtype, nki::TensorRole::kConstant);
    program.tensors[id].constant_data = std::move(values);
    return id;
}

nki::TensorId ProgramBuilder::tile(nki::Buffer buffer, std::int64_t partitions, std::int64_t free,
                                   DType dtype, std::int64_t blocks) {
    nki::Tensor tensor;
    tensor.id = static_cast<nki::TensorId>(program.tensors.size());
    tensor.name = "tile" + std::to_string(tensor.id);
    tensor.buffer = buffer;
    tensor.dtype = dtype;
    tensor.shape = {blocks, partitions, free};
    tensor.partition_axis = 1;
    tensor.blocks = blocks;
    tensor.partitions = partitions;
    tensor.free_elements = free;
    tensor.line = 100 + tensor.id;
    program.tensors.push_back(tensor);
    return tensor.id;
}

nki::View ProgramBuilder::whole(nki::TensorId tensor, std::int64_t block) const {
    const nki::Tensor& t = program.tensors[tensor];
    return part(tensor, 0, t.partitions, 0, t.free_elements, block);
}

nki::View ProgramBuilder::part(nki::TensorId tensor, std::int64_t row, std::int64_t rows,
                               std::int64_t column, std::int64_t columns,
                               std::int64_t block) const {
    const std::int64_t stride = program.tensors[tensor].free_elements;
    nki::View view;
    view.tensor = tensor;
    view.block = block;
    view.offset = row * stride + column;
    view.rank = 2;
    view.dims[0] = {stride, rows};
    view.dims[1] = {1, columns};
    return view;
}

nki::Operation& ProgramBuilder::add(nki::Opcode opcode, const nki::View& dst,
                                    const std::vector<nki::View>& sources) {
    nki::Operation operation;
    operation.opcode = opcode;
    operation.dst = dst;
    operation.sources = static_cast<std::uint8_t>(sources.size());
    for (std::size_t k = 0; k < sources.size(); ++k) operation.src[k] = sources[k];
    operation.scale.immediate = 1;
    operation.line = ++line_;
    operation.column = 4;
    program.operations.push_back(operation);
    return program.operations.back();
}

nki::Operation& ProgramBuilder::memset(const nki::View& dst, double value) {
    nki::Operation& operation = add(nki::Opcode::kMemset, dst);
    operation.operand0.immediate = value;
    return operation;
}

nki::Operation& ProgramBuilder::load(nki::TensorId tile, nki::TensorId tensor) {
    return add(nki::Opcode::kLoad, whole(tile), {whole(tensor)});
}

nki::Operation& ProgramBuilder::store(nki::TensorId tensor, nki::TensorId tile) {
    return add(nki::Opcode::kStore, whole(tensor), {whole(tile)});
}

HostArray encode_array(DType dtype, const std::vector<double>& values) {
    HostArray array;
    const DType storage = hbm_format(dtype).storage;
    const auto size = static_cast<std::size_t>(storage_bytes(storage));
    array.bytes.resize(values.size() * size);
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::byte* to = array.bytes.data() + i * size;
        if (is_integer(dtype)) {
            const auto value = static_cast<std::int64_t>(std::nearbyint(values[i]));
            execution::encode_integers(storage, dtype, &value, to, 1, 1);
        } else {
            const float value = round_to(dtype, static_cast<float>(values[i]));
            execution::encode(storage, dtype, &value, to, 1, 1);
        }
    }
    array.values = decode_array(dtype, array.bytes);
    return array;
}

std::vector<double> decode_array(DType dtype, std::span<const std::byte> bytes) {
    const DType storage = hbm_format(dtype).storage;
    const auto size = static_cast<std::size_t>(storage_bytes(storage));
    std::vector<double> values(bytes.size() / size);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (is_integer(dtype)) {
            std::int64_t value = 0;
            execution::decode_integers(storage, bytes.data() + i * size, 1, &value, 1);
            values[i] = static_cast<double>(value);
        } else {
            float value = 0;
            execution::decode(storage, bytes.data() + i * size, 1, &value, 1);
            values[i] = value;
        }
    }
    return values;
}

std::int64_t pick(RandomStream& random, std::int64_t low, std::int64_t high) {
    return low +
           static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

std::vector<double> random_values(RandomStream& random, DType dtype, std::int64_t n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& value : values) {
        if (dtype == DType::kBool) {
            value = static_cast<double>(pick(random, 0, 1));
        } else if (is_integer(dtype)) {
            value = static_cast<double>(
                pick(random, std::max<std::int64_t>(integer_min(dtype), -90), 90));
        } else {
            value = random.below(16) == 0 ? 0.0 : random.uniform() * 8 - 4;
        }
    }
    return values;
}

nki::View random_view(RandomStream& random, const std::vector<std::int64_t>& counts,
                      std::int64_t& partitions, std::int64_t& free) {
    const int rank = static_cast<int>(counts.size());
    nki::View view;
    view.rank = rank;
    for (int d = 0; d < rank; ++d) view.dims[d].count = counts[d];
    // Free dims nest in a random order, each with a random gap.
    std::vector<int> order;
    for (int d = 1; d < rank; ++d) order.push_back(d);
    if (random.below(3) == 0) {
        const auto permutation = random.permutation(order.size());
        std::vector<int> shuffled;
        for (const std::size_t k : permutation) shuffled.push_back(order[k]);
        order = shuffled;
    }
    std::int64_t step = random.below(4) == 0 ? pick(random, 2, 3) : 1;
    std::int64_t offset = 0;
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
        const bool reversed = random.below(8) == 0;
        view.dims[*d].stride = reversed ? -step : step;
        if (reversed) offset += step * (counts[*d] - 1);
        step *= counts[*d];
        if (random.below(3) == 0) step += pick(random, 1, 5);
    }
    const std::int64_t first_column = random.below(2) == 0 ? 0 : pick(random, 0, 7);
    const std::int64_t first_row = random.below(2) == 0 ? 0 : pick(random, 0, 3);
    free = first_column + step + (random.below(2) == 0 ? 0 : pick(random, 0, 9));
    partitions = first_row + counts[0] + (random.below(2) == 0 ? 0 : pick(random, 0, 3));
    view.dims[0].stride = free;
    view.offset = offset + first_column + first_row * free;
    return view;
}

}  // namespace accelopt::trainium::testing
