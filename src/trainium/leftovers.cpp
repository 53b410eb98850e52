#include "trainium/leftovers.h"

#include <algorithm>

namespace accelopt::trainium::execution {
namespace {

using nki::Opcode;
using Offsets = std::vector<std::int64_t>;

/// How far an element that is read reaches in the destination.
enum class Reach {
    kElement,    ///< the element at the same index (of a reduction: the one it is reduced into)
    kPartition,  ///< its partition
    kProduct,    ///< a row (stationary) or a column (moving) of a product
    kAnywhere
};

Reach reach_of(Opcode opcode) {
    switch (opcode) {
        case Opcode::kCopy:
        case Opcode::kActivation:
        case Opcode::kTensorScalar:
        case Opcode::kTensorTensor:
        case Opcode::kScalarTensorTensor:
        case Opcode::kReciprocal:
        case Opcode::kReduce:
        case Opcode::kSelect:
        case Opcode::kRangeSelect:
        case Opcode::kDropout:
            return Reach::kElement;
        case Opcode::kScan:
        case Opcode::kBnStats:
        case Opcode::kBnAggr:
        case Opcode::kMax8:
            return Reach::kPartition;
        case Opcode::kMatmul:
            return Reach::kProduct;
        default:
            return Reach::kAnywhere;
    }
}

/// Calls body(index, innermost index) for every element of an access that nothing has written.
template <class Body>
void for_each_leftover(const Access& access, const Space& space, const WrittenMap& map, Body body) {
    const int inner = space.rank - 1;
    for_each_run(space, [&](const Extents& index, std::int64_t begin, std::int64_t end) {
        const std::int64_t stride = inner < 0 ? 0 : access.stride[inner];
        const std::int64_t start = offset_at(access, index, inner);
        if (stride == 0 && map.element(start)) return;
        for (std::int64_t k = begin; k < end; ++k)
            if (!map.element(start + k * stride)) body(index, k);
    });
}

/// Position among the dims [first, rank), row-major.
std::int64_t flat(const Space& space, const Extents& index, std::int64_t k, int first) {
    std::int64_t at = 0;
    for (int d = first; d < space.rank; ++d)
        at = at * space.count[d] + (d == space.rank - 1 ? k : index[d]);
    return at;
}

/// Destination elements for which keep(partition index, flat index of the rest) holds.
template <class Keep>
void add_targets(const Access& target, const Space& space, Offsets& offsets, Keep keep) {
    const int inner = space.rank - 1;
    for_each_run(space, [&](const Extents& index, std::int64_t begin, std::int64_t end) {
        const std::int64_t start = offset_at(target, index, inner);
        for (std::int64_t k = begin; k < end; ++k) {
            const std::int64_t partition = inner == 0 ? k : index[0];
            if (keep(partition, flat(space, index, k, 1)))
                offsets.push_back(start + k * target.stride[inner]);
        }
    });
}

bool on_chip(const nki::Program& program, nki::TensorId tensor) {
    const nki::Buffer buffer = program.tensors[tensor].buffer;
    return buffer == nki::Buffer::kSbuf || buffer == nki::Buffer::kPsum;
}

}  // namespace

std::optional<Offsets> elements_from_leftovers(
    const nki::Operation& operation, const Resolved& resolved, const nki::Program& program,
    const std::function<const WrittenMap*(const Access&)>& map_of) {
    const Reach reach = reach_of(operation.opcode);
    const Space& written = resolved.target_space(operation);
    bool followed =
        reach != Reach::kAnywhere && written.rank > 0 && on_chip(program, resolved.target.tensor);
    Offsets offsets;
    std::vector<char> rows(static_cast<std::size_t>(written.rank > 0 ? written.count[0] : 0), 0);
    std::vector<char> columns;
    if (written.rank > 0 && reach == Reach::kProduct)
        columns.assign(
            static_cast<std::size_t>(written.size() / std::max<std::int64_t>(written.count[0], 1)),
            0);
    const auto mark = [&](std::vector<char>& marks, std::int64_t at) {
        if (at < static_cast<std::int64_t>(marks.size()))
            marks[static_cast<std::size_t>(at)] = 1;
        else
            followed = false;
    };
    int source = 0;
    for_each_read(operation, resolved, [&](const Reference& read) {
        const int number = source++;
        if (!followed) return;
        const WrittenMap* map = map_of(read.access);
        if (map == nullptr) return;
        const Space& space = *read.space;
        followed = on_chip(program, read.access.tensor) && space.rank > 0;
        const bool same = &space == &written;
        for_each_leftover(read.access, space, *map, [&](const Extents& index, std::int64_t k) {
            if (reach == Reach::kPartition) {
                mark(rows, space.rank == 1 ? k : index[0]);
            } else if (same) {
                offsets.push_back(offset_at(resolved.target, index, space.rank - 1) +
                                  k * resolved.target.stride[space.rank - 1]);
            } else if (reach == Reach::kProduct) {
                mark(number == 0 ? rows : columns, flat(space, index, k, 1));
            } else {
                followed = false;
            }
        });
    });
    if (!followed) return std::nullopt;
    if (std::count(rows.begin(), rows.end(), 1) > 0 ||
        std::count(columns.begin(), columns.end(), 1) > 0)
        add_targets(resolved.target, written, offsets, [&](std::int64_t row, std::int64_t column) {
            return rows[static_cast<std::size_t>(row)] != 0 ||
                   (!columns.empty() && columns[static_cast<std::size_t>(column)] != 0);
        });
    return offsets;
}

}  // namespace accelopt::trainium::execution
