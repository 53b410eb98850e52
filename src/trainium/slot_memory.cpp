#include "trainium/slot_memory.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace accelopt::trainium::execution {

SlotMemory::SlotMemory(const nki::Program& program, const TileTable& tiles,
                       std::span<const InputArray> inputs, std::size_t lives,
                       std::int64_t limit_bytes)
    : program_(program), hbm_(program, tiles, inputs, limit_bytes), lives_(lives) {}

SlotMemory::~SlotMemory() {
    for (const Slot& slot : slots_) pool().give(slot.data, slot.bytes);
    for (const auto& [copy, slot] : copies_) pool().give(slot.data, slot.bytes);
}

nki::TensorId SlotMemory::layout(std::int64_t partitions, std::int64_t columns, nki::DType dtype) {
    const auto id = static_cast<nki::TensorId>(program_.tensors.size() + layouts_.size());
    const auto [found, made] =
        layout_of_.try_emplace({partitions, columns, static_cast<std::int64_t>(dtype)}, id);
    if (!made) return found->second;
    nki::Tensor& tensor = layouts_.emplace_back();
    tensor.id = id;
    tensor.dtype = dtype;
    tensor.shape = {partitions, columns};
    tensor.partitions = partitions;
    tensor.free_elements = columns;
    return id;
}

const nki::Tensor& SlotMemory::tensor(nki::TensorId tensor) const {
    const auto index = static_cast<std::size_t>(tensor);
    require(tensor >= 0 && index < program_.tensors.size() + layouts_.size(),
            "completion order: a view of no tensor");
    return index < program_.tensors.size() ? program_.tensors[index]
                                           : layouts_[index - program_.tensors.size()];
}

std::int32_t SlotMemory::take_slot(std::int64_t bytes, int line) {
    std::vector<std::int32_t>& free = free_[bytes];
    if (!free.empty()) {
        const std::int32_t slot = free.back();
        free.pop_back();
        return slot;
    }
    std::byte* data = pool().take(bytes);
    if (data == nullptr) throw MemoryExhausted{bytes, line};
    std::memset(data, 0, static_cast<std::size_t>(bytes));
    slots_.push_back({data, bytes});
    return static_cast<std::int32_t>(slots_.size() - 1);
}

void SlotMemory::allocate(std::int32_t life) {
    Life& state = lives_[life];
    if (state.slot < 0) state.slot = take_slot(array_bytes(tensor(state.layout)), 0);
}

void SlotMemory::release(std::int32_t life) {
    const Life& state = lives_[life];
    require(state.slot >= 0, "completion order: memory is given back that was never given");
    free_[slots_[state.slot].bytes].push_back(state.slot);
}

void SlotMemory::lose(std::int32_t life, const trainium::Operand& box) {
    const Life& state = lives_[life];
    if (state.slot < 0) return;
    const nki::Tensor& described = tensor(state.layout);
    const NumberFormat format = format_of(described);
    const std::int64_t size = nki::size_of(described.dtype);
    const std::int64_t first = box.byte_lo / size;
    const std::int64_t end = std::min((box.byte_hi + size - 1) / size, described.free_elements);
    if (first >= end) return;
    for (std::int64_t row = box.partition_lo; row < box.partition_hi; ++row) {
        const std::int64_t at = row * described.free_elements + first;
        fill_with_poison(format, slots_[state.slot].data + at * storage_bytes(format.storage),
                         end - first);
    }
}

/// An access to a life that has no memory yet gets some all the same: it reads poison, and so the
/// fault shows in the values instead of ending the run.
std::byte* SlotMemory::touch(nki::TensorId id, std::int64_t life, bool whole, int line) {
    require(life >= 0 && static_cast<std::size_t>(life) < lives_.size(),
            "completion order: a view of no life");
    Life& state = lives_[life];
    const nki::Tensor& described = tensor(id);
    const std::int64_t bytes = array_bytes(described);
    if (state.slot < 0) state.slot = take_slot(bytes, line);
    const Slot& slot = slots_[state.slot];
    require(slot.bytes >= bytes, "completion order: an array is larger than its memory");
    std::byte* data = slot.data;
    if (!state.touched) {
        state.touched = true;
        if (!whole) {
            fill_with_poison(format_of(described), data,
                             described.partitions * described.free_elements);
        }
    }
    return data;
}

std::byte* SlotMemory::read(nki::TensorId tensor, std::int64_t block, int line) {
    if (this->tensor(tensor).buffer == nki::Buffer::kHbm) return hbm_.read(tensor, block, line);
    return touch(tensor, block, false, line);
}

std::byte* SlotMemory::write(nki::TensorId tensor, std::int64_t block, bool whole, int line) {
    if (this->tensor(tensor).buffer == nki::Buffer::kHbm) {
        return hbm_.write(tensor, block, whole, line);
    }
    return touch(tensor, block, whole, line);
}

void SlotMemory::spill(std::int32_t life, std::int32_t copy, int line) {
    const nki::TensorId id = lives_[life].layout;
    const std::int64_t bytes = array_bytes(tensor(id));
    const std::byte* data = touch(id, life, false, line);
    Slot& target = copies_[copy];
    if (target.data == nullptr) {
        target.data = pool().take(bytes);
        if (target.data == nullptr) throw MemoryExhausted{bytes, line};
        target.bytes = bytes;
    }
    std::memcpy(target.data, data, static_cast<std::size_t>(bytes));
}

void SlotMemory::reload(std::int32_t copy, std::int32_t life, int line) {
    const nki::TensorId id = lives_[life].layout;
    const auto found = copies_.find(copy);
    std::byte* data = touch(id, life, found != copies_.end(), line);
    if (found == copies_.end()) return;
    std::memcpy(data, found->second.data, static_cast<std::size_t>(found->second.bytes));
}

void SlotMemory::drop(std::int32_t copy) {
    const auto found = copies_.find(copy);
    if (found == copies_.end()) return;
    pool().give(found->second.data, found->second.bytes);
    copies_.erase(found);
}

}  // namespace accelopt::trainium::execution
