#include "trainium/output_bytes.h"

#include <cstdlib>
#include <cstring>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace accelopt::trainium {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::align_val_t kAlignment{64};

#if defined(__linux__)
bool is_mapped(std::size_t bytes) { return bytes >= 2 * kHugePage; }
#else
bool is_mapped(std::size_t) { return false; }
#endif

}  // namespace

std::byte* allocate_zeros(std::size_t bytes) {
    if (!is_mapped(bytes)) {
        auto* data = static_cast<std::byte*>(::operator new(bytes, kAlignment));
        std::memset(data, 0, bytes);
        return data;
    }
#if defined(__linux__)
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    // Only a hint: the faults of 4 KiB pages take longer than a streaming kernel's arithmetic.
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    return static_cast<std::byte*>(data);
#else
    throw std::bad_alloc();
#endif
}

void release_zeros(std::byte* data, std::size_t bytes) noexcept {
    if (!is_mapped(bytes)) return ::operator delete(data, kAlignment);
#if defined(__linux__)
    (void)munmap(data, bytes);
#endif
}

}  // namespace accelopt::trainium
