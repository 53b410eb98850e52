#include "trainium/bounds.h"

#include <fmt/format.h>

#include "core/error.h"

namespace accelopt::trainium::execution {

namespace {

/// Rows of an HBM tensor shorter than this are mapped as one long row.
constexpr std::int64_t kShortRow = 64;

}  // namespace

void require_inside(const Access& access, const Space& space, const nki::Tensor& tensor,
                    const nki::Operation& operation) {
    if (space.empty) return;
    std::int64_t low = access.offset;
    std::int64_t high = access.offset;
    if (space.coupled.empty()) {
        for (int d = 0; d < space.rank; ++d) {
            const std::int64_t reach = access.stride[d] * (space.count[d] - 1);
            (reach < 0 ? low : high) += reach;
        }
    } else {
        // The corners of the box may lie outside; what the mask leaves must not.
        const int inner = space.rank - 1;
        bool first = true;
        for_each_run(space, [&](const Extents& index, std::int64_t begin, std::int64_t end) {
            const std::int64_t start = offset_at(access, index, inner);
            for (const std::int64_t i : {begin, end - 1}) {
                const std::int64_t at = start + access.stride[inner] * i;
                low = first ? at : std::min(low, at);
                high = first ? at : std::max(high, at);
                first = false;
            }
        });
        if (first) return;
    }
    if (low < 0 || high >= tensor.partitions * tensor.free_elements) {
        throw Error(ErrorSource::kInternal, "bounds",
                    fmt::format("{} at line {} leaves '{}': elements {} to {} of {}",
                                nki::to_string(operation.opcode), operation.line, tensor.name, low,
                                high, tensor.partitions * tensor.free_elements));
    }
}

WrittenMap map_of(const nki::Tensor& tensor) {
    if (tensor.buffer == nki::Buffer::kHbm && tensor.free_elements < kShortRow) {
        return WrittenMap(1, tensor.partitions * tensor.free_elements);
    }
    return WrittenMap(tensor.partitions, tensor.free_elements);
}

}  // namespace accelopt::trainium::execution
