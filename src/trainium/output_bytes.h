#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace accelopt::trainium {

/// Returns `bytes` zero bytes, aligned to 64, of large pages where the system has them; the zeros
/// of a large array are pages that the system gives on first touch. Throws std::bad_alloc.
std::byte* allocate_zeros(std::size_t bytes);
void release_zeros(std::byte* data, std::size_t bytes) noexcept;

/// Gives memory that is zero already and leaves it alone: a vector of it is not filled when it is
/// made, which takes as long as a streaming kernel. A vector that uses it must not shrink and grow
/// again.
template <class T>
struct ZeroAllocator {
    using value_type = T;

    ZeroAllocator() = default;
    template <class U>
    ZeroAllocator(const ZeroAllocator<U>&) {}

    T* allocate(std::size_t n) { return reinterpret_cast<T*>(allocate_zeros(n * sizeof(T))); }
    void deallocate(T* data, std::size_t n) noexcept {
        release_zeros(reinterpret_cast<std::byte*>(data), n * sizeof(T));
    }
    template <class U, class... Arguments>
    void construct(U* at, Arguments&&... arguments) {
        if constexpr (sizeof...(Arguments) > 0) {
            std::construct_at(at, std::forward<Arguments>(arguments)...);
        }
    }
    bool operator==(const ZeroAllocator&) const { return true; }
};

/// The bytes of an output array.
using OutputBytes = std::vector<std::byte, ZeroAllocator<std::byte>>;

}  // namespace accelopt::trainium
