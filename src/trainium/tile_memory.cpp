#include "trainium/tile_memory.h"

#include <fmt/format.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

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

/// Asks for large pages before a large array is first touched: the faults of 4 KiB pages take
/// longer than the arithmetic of a streaming kernel. Only a hint; failure changes nothing.
void prefer_huge_pages([[maybe_unused]] std::byte* data, [[maybe_unused]] std::int64_t bytes) {
#if defined(__linux__)
    constexpr std::int64_t kHugePage = 2 << 20;
    if (bytes < 2 * kHugePage) return;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
    const std::uintptr_t last =
        (address + static_cast<std::uintptr_t>(bytes)) / kHugePage * kHugePage;
    (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

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
    if (block != nullptr) {
        held_ += bytes;
        prefer_huge_pages(block, bytes);
    }
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

std::size_t TileTable::BlockHash::operator()(const BlockKey& key) const {
    std::uint64_t hash = static_cast<std::uint64_t>(key.block) * 0x9E3779B97F4A7C15u;
    hash ^= static_cast<std::uint64_t>(key.tensor) + (hash >> 32);
    return static_cast<std::size_t>(hash * 0xFF51AFD7ED558CCDu);
}

TileTable::TileTable(const nki::Program& program, std::span<const std::int32_t> order)
    : program_(program) {
    // Tile k is block 0 of tensor k; further tiles are made as operations name them.
    for (const nki::Tensor& tensor : program.tensors) tensor_.push_back(tensor.id);
    last_use_.assign(tensor_.size(), -1);
    const auto count =
        static_cast<std::int64_t>(order.empty() ? program.operations.size() : order.size());
    for (std::int64_t i = 0; i < count; ++i) {
        const nki::Operation& operation = program.operations[order.empty() ? i : order[i]];
        const auto use = [&](const nki::View& view) {
            last_use_[number(view.tensor, view.block)] = i;
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

std::size_t TileTable::number(nki::TensorId tensor, std::int64_t block) {
    if (block > 0 && tensor >= 0 && static_cast<std::size_t>(tensor) < program_.tensors.size() &&
        block < program_.tensors[tensor].blocks) {
        const auto [found, made] = blocks_.try_emplace({tensor, block}, tensor_.size());
        if (made) {
            tensor_.push_back(tensor);
            last_use_.push_back(-1);
        }
        return found->second;
    }
    return tile_of(tensor, block);
}

std::size_t TileTable::tile_of(nki::TensorId tensor, std::int64_t block) const {
    if (block == 0 && tensor >= 0 && static_cast<std::size_t>(tensor) < program_.tensors.size()) {
        return static_cast<std::size_t>(tensor);
    }
    const auto found = blocks_.find({tensor, block});
    if (found == blocks_.end()) {
        throw Error(ErrorSource::kInternal, "tile",
                    fmt::format("no block {} of tensor {}", block, tensor));
    }
    return found->second;
}

std::span<const std::size_t> TileTable::ending_at(std::int64_t position) const {
    const std::size_t begin = ending_begin_[position];
    return {ending_.data() + begin, ending_begin_[position + 1] - begin};
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
            pool_.give(data_[tile], array_bytes(tensor));
        }
    }
}

NumberFormat format_of(const nki::Tensor& tensor) {
    return tensor.buffer == nki::Buffer::kHbm ? hbm_format(tensor.dtype)
                                              : on_chip_format(tensor.dtype);
}

std::int64_t array_bytes(const nki::Tensor& tensor) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(tensor.partitions, tensor.free_elements, &bytes) ||
        __builtin_mul_overflow(bytes, storage_bytes(format_of(tensor).storage), &bytes)) {
        return INT64_MAX;
    }
    return bytes;
}

const void* TileMemory::input_of(const nki::Tensor& tensor) const {
    const std::int64_t bytes = array_bytes(tensor);
    const auto argument = static_cast<std::size_t>(tensor.argument);
    if (tensor.argument < 0 || argument >= inputs_.size() || inputs_[argument].bytes != bytes) {
        throw Error(ErrorSource::kInternal, "inputs",
                    fmt::format("input '{}' needs an array of {} bytes", tensor.name, bytes));
    }
    return inputs_[argument].data;
}

std::byte* TileMemory::fixed(const nki::Tensor& tensor, std::size_t tile) {
    if (data_[tile] != nullptr) return data_[tile];
    const std::int64_t bytes = array_bytes(tensor);
    if (tensor.role == nki::TensorRole::kInput) {
        // Never written: write() refuses inputs.
        data_[tile] = static_cast<std::byte*>(const_cast<void*>(input_of(tensor)));
        return data_[tile];
    }
    const NumberFormat form = format_of(tensor);
    const auto n = tensor.constant_data.size();
    if (static_cast<std::int64_t>(n) * storage_bytes(form.storage) != bytes) {
        throw Error(ErrorSource::kInternal, "constant",
                    fmt::format("constant '{}' has {} values", tensor.name, n));
    }
    if (!pool_.reserve(bytes)) throw MemoryExhausted{bytes, tensor.line};
    OutputBytes& array = own_[tensor.id];
    array.resize(static_cast<std::size_t>(bytes));
    encode(form.storage, form.value, tensor.constant_data.data(), array.data(), 1, n);
    data_[tile] = array.data();
    return data_[tile];
}

std::byte* TileMemory::allocate(std::size_t tile, bool poison, int line) {
    if (data_[tile] != nullptr) return data_[tile];
    const nki::Tensor& tensor = program_.tensors[tiles_.tensor_of(tile)];
    const std::int64_t bytes = array_bytes(tensor);
    std::byte* data = nullptr;
    if (tensor.role == nki::TensorRole::kOutput) {
        if (!pool_.reserve(bytes)) throw MemoryExhausted{bytes, line};
        OutputBytes& array = own_[tensor.id];
        array.resize(static_cast<std::size_t>(bytes));
        data = array.data();
        if (tensor.is_mutable_parameter()) std::memcpy(data, input_of(tensor), array.size());
        poison = false;
    } else {
        data = pool_.take(bytes);
        if (data == nullptr) throw MemoryExhausted{bytes, line};
    }
    data_[tile] = data;
    if (poison) fill_with_poison(format_of(tensor), data, tensor.partitions * tensor.free_elements);
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

void TileMemory::release(std::int64_t position) {
    for (const std::size_t tile : tiles_.ending_at(position)) {
        const nki::Tensor& tensor = program_.tensors[tiles_.tensor_of(tile)];
        if (lies_outside_pool(tensor) || data_[tile] == nullptr) continue;
        pool_.give(data_[tile], array_bytes(tensor));
        data_[tile] = nullptr;
    }
}

void TileMemory::fill_gaps(nki::TensorId output, const WrittenMap& map) {
    const NumberFormat form = format_of(program_.tensors[output]);
    std::byte* data = read(output, 0, program_.tensors[output].line);
    map.for_each_gap([&](std::int64_t begin, std::int64_t count) {
        fill_with_poison(form, data + begin * storage_bytes(form.storage), count);
    });
}

OutputBytes& TileMemory::output(nki::TensorId tensor) {
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
