#include "trainium/tile_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "core/error.h"
#include "trainium/operands.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium::execution {

namespace {

constexpr std::align_val_t kAlignment{64};

bool is_fixed(const nki::Tensor& tensor) {
    return tensor.role == nki::TensorRole::kInput || tensor.role == nki::TensorRole::kConstant;
}

bool lies_outside_pool(const nki::Tensor& tensor) {
    return is_fixed(tensor) || tensor.role == nki::TensorRole::kOutput;
}

}  // namespace

BlockPool::~BlockPool() { trim(); }

void BlockPool::trim() {
    for (auto& [bytes, blocks] : free_) {
        for (std::byte* block : blocks) {
            ::operator delete(block, kAlignment);
            held_ -= bytes;
        }
    }
    free_.clear();
}

std::byte* BlockPool::take(std::int64_t bytes) {
    bytes = std::max<std::int64_t>(bytes, 1);
    const auto found = free_.find(bytes);
    if (found != free_.end() && !found->second.empty()) {
        std::byte* block = found->second.back();
        found->second.pop_back();
        return block;
    }
    if (bytes > limit_ - held_) trim();
    if (bytes > limit_ - held_) return nullptr;
    auto* block = static_cast<std::byte*>(
        ::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow));
    if (block != nullptr) held_ += bytes;
    return block;
}

bool BlockPool::reserve(std::int64_t bytes) {
    if (bytes > limit_ - held_) trim();
    if (bytes > limit_ - held_) return false;
    held_ += bytes;
    return true;
}

void BlockPool::give(std::byte* block, std::int64_t bytes) {
    free_[std::max<std::int64_t>(bytes, 1)].push_back(block);
}

TileTable::TileTable(const nki::Program& program) : program_(program) {
    for (const nki::Tensor& tensor : program.tensors) {
        first_.push_back(tensor_.size());
        tensor_.insert(tensor_.end(), static_cast<std::size_t>(tensor.blocks), tensor.id);
    }
    last_use_.assign(tensor_.size(), -1);
    const auto count = static_cast<std::int64_t>(program.operations.size());
    for (std::int64_t i = 0; i < count; ++i) {
        const nki::Operation& operation = program.operations[i];
        const auto use = [&](const nki::View& view) {
            last_use_[tile_of(view.tensor, view.block)] = i;
        };
        for_each_read_view(operation, use);
        use(operation.dst);
    }
    ending_.resize(tensor_.size());
    std::iota(ending_.begin(), ending_.end(), std::size_t{0});
    std::stable_sort(ending_.begin(), ending_.end(),
                     [&](std::size_t a, std::size_t b) { return last_use_[a] < last_use_[b]; });
    std::size_t at = 0;
    for (std::int64_t i = 0; i <= count; ++i) {
        while (at < ending_.size() && last_use_[ending_[at]] < i) ++at;
        ending_begin_.push_back(at);
    }
}

std::size_t TileTable::tile_of(nki::TensorId tensor, std::int64_t block) const {
    if (tensor < 0 || static_cast<std::size_t>(tensor) >= first_.size() || block < 0 ||
        block >= program_.tensors[tensor].blocks) {
        throw Error(ErrorSource::kInternal, "tile",
                    fmt::format("no block {} of tensor {}", block, tensor));
    }
    return first_[tensor] + static_cast<std::size_t>(block);
}

std::span<const std::size_t> TileTable::ending_at(std::int64_t index) const {
    const std::size_t begin = ending_begin_[index];
    return {ending_.data() + begin, ending_begin_[index + 1] - begin};
}

TileMemory::TileMemory(const nki::Program& program, const TileTable& tiles,
                       std::span<const InputArray> inputs, std::int64_t limit_bytes)
    : program_(program),
      tiles_(tiles),
      inputs_(inputs),
      pool_(limit_bytes),
      data_(tiles.size(), nullptr) {}

TileMemory::~TileMemory() {
    for (std::size_t tile = 0; tile < data_.size(); ++tile) {
        const nki::Tensor& tensor = program_.tensors[tiles_.tensor_of(tile)];
        if (data_[tile] != nullptr && !lies_outside_pool(tensor)) {
            pool_.give(data_[tile], tile_bytes(tensor));
        }
    }
}

NumberFormat TileMemory::format(nki::TensorId tensor) const {
    const nki::Tensor& described = program_.tensors[tensor];
    return described.buffer == nki::Buffer::kHbm ? hbm_format(described.dtype)
                                                 : on_chip_format(described.dtype);
}

std::int64_t TileMemory::tile_bytes(const nki::Tensor& tensor) const {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(tensor.partitions, tensor.free_elements, &bytes) ||
        __builtin_mul_overflow(bytes, storage_bytes(format(tensor.id).storage), &bytes)) {
        return INT64_MAX;
    }
    return bytes;
}

std::byte* TileMemory::fixed(const nki::Tensor& tensor, std::size_t tile) {
    if (data_[tile] != nullptr) return data_[tile];
    const std::int64_t bytes = tile_bytes(tensor);
    if (tensor.role == nki::TensorRole::kInput) {
        const auto argument = static_cast<std::size_t>(tensor.argument);
        if (tensor.argument < 0 || argument >= inputs_.size() || inputs_[argument].bytes != bytes) {
            throw Error(ErrorSource::kInternal, "inputs",
                        fmt::format("input '{}' needs an array of {} bytes", tensor.name, bytes));
        }
        // Never written: write() refuses inputs.
        data_[tile] = static_cast<std::byte*>(const_cast<void*>(inputs_[argument].data));
        return data_[tile];
    }
    const NumberFormat form = format(tensor.id);
    const auto n = tensor.constant_data.size();
    if (static_cast<std::int64_t>(n) * storage_bytes(form.storage) != bytes) {
        throw Error(ErrorSource::kInternal, "constant",
                    fmt::format("constant '{}' has {} values", tensor.name, n));
    }
    if (!pool_.reserve(bytes)) throw MemoryExhausted{bytes, tensor.line};
    std::vector<std::byte>& array = own_[tensor.id];
    array.resize(static_cast<std::size_t>(bytes));
    encode(form.storage, form.value, tensor.constant_data.data(), array.data(), 1, n);
    data_[tile] = array.data();
    return data_[tile];
}

std::byte* TileMemory::allocate(std::size_t tile, bool poison, int line) {
    if (data_[tile] != nullptr) return data_[tile];
    const nki::Tensor& tensor = program_.tensors[tiles_.tensor_of(tile)];
    const std::int64_t bytes = tile_bytes(tensor);
    std::byte* data = nullptr;
    if (tensor.role == nki::TensorRole::kOutput) {
        if (!pool_.reserve(bytes)) throw MemoryExhausted{bytes, line};
        std::vector<std::byte>& array = own_[tensor.id];
        array.resize(static_cast<std::size_t>(bytes));
        data = array.data();
        poison = true;
    } else {
        data = pool_.take(bytes);
        if (data == nullptr) throw MemoryExhausted{bytes, line};
    }
    data_[tile] = data;
    if (poison) fill_with_poison(format(tensor.id), data, tensor.partitions * tensor.free_elements);
    return data;
}

std::byte* TileMemory::read(nki::TensorId tensor, std::int64_t block, int line) {
    const std::size_t tile = tiles_.tile_of(tensor, block);
    const nki::Tensor& described = program_.tensors[tensor];
    return is_fixed(described) ? fixed(described, tile) : allocate(tile, true, line);
}

std::byte* TileMemory::write(nki::TensorId tensor, std::int64_t block, bool whole, int line) {
    const std::size_t tile = tiles_.tile_of(tensor, block);
    const nki::Tensor& described = program_.tensors[tensor];
    if (is_fixed(described)) {
        throw Error(
            ErrorSource::kInternal, "immutable",
            fmt::format("line {} writes to '{}', which is read-only", line, described.name));
    }
    return allocate(tile, !whole, line);
}

void TileMemory::release(std::int64_t index) {
    for (const std::size_t tile : tiles_.ending_at(index)) {
        const nki::Tensor& tensor = program_.tensors[tiles_.tensor_of(tile)];
        if (lies_outside_pool(tensor) || data_[tile] == nullptr) continue;
        pool_.give(data_[tile], tile_bytes(tensor));
        data_[tile] = nullptr;
    }
}

std::vector<std::byte>& TileMemory::output(nki::TensorId tensor) {
    const nki::Tensor& described = program_.tensors[tensor];
    if (described.role != nki::TensorRole::kOutput) {
        throw Error(ErrorSource::kInternal, "output",
                    fmt::format("'{}' is returned but is no output", described.name));
    }
    read(tensor, 0, described.line);
    return own_[tensor];
}

void fill_with_poison(const NumberFormat& format, std::byte* data, std::int64_t n) {
    const auto bytes = static_cast<std::size_t>(storage_bytes(format.storage));
    const float poison = poison_value(format.value);
    if (format.storage == nki::DType::kFloat32) {
        return fill(poison, reinterpret_cast<float*>(data), static_cast<std::size_t>(n));
    }
    if (n == 0) return;
    encode(format.storage, format.value, &poison, data, 1, 1);
    // Doubles the filled part until it covers the array.
    const std::size_t total = static_cast<std::size_t>(n) * bytes;
    for (std::size_t filled = bytes; filled < total;) {
        const std::size_t step = std::min(filled, total - filled);
        std::memcpy(data + filled, data, step);
        filled += step;
    }
}

}  // namespace accelopt::trainium::execution
