#include <fmt/format.h>

#include <algorithm>

#include "trainium/executor.h"
#include "trainium/indirect.h"
#include "trainium/row_operations.h"

namespace accelopt::trainium::execution {

using nki::Opcode;
using nki::Operation;

const nki::Extra& Executor::extra_of(const Operation& operation) const {
    static const nki::Extra kNone;
    return operation.extra < 0 ? kNone
                               : program_.extras.at(static_cast<std::size_t>(operation.extra));
}

void Executor::indirect(const Operation& operation) {
    Indirect work;
    work.operation = &operation;
    work.extra = &extra_of(operation);
    for (int k = 1; k < source_count(operation); ++k) work.index[k - 1] = source(operation, k);
    if (operation.opcode == Opcode::kGather) {
        work.window = source(operation, 0);
        if (updates_destination(operation)) poison(resolved_.target.tensor);
        work.dense = target(operation);
        work.dense_offset = resolved_.target.offset;
        return run_gather(work, resolved_.space, written_map(operation));
    }
    work.dense = source(operation, 0);
    const Access& access = resolved_.target;
    if (updates_destination(operation)) poison(access.tensor);
    work.window = bind(access, storage_.write(access.tensor, access.block, false, line_));
    run_scatter(work, resolved_.space, written_map(operation));
}

/// The map of an output that an operation marks itself, since data decide what it writes; else
/// nullptr.
WrittenMap* Executor::written_map(const Operation& operation) {
    const auto found = outputs_.find(operation.dst.tensor);
    return found == outputs_.end() || !writes_by_data(operation) ? nullptr : &found->second.written;
}

void Executor::positional(const Operation& operation) {
    std::array<Operand, 3> sources;
    for (int k = 0; k < source_count(operation); ++k) sources[k] = source(operation, k);
    const Operand threshold = scalar(operation, operation.operand1, resolved_.operand1);
    run_positional(operation, extra_of(operation), resolved_.space, sources, threshold,
                   target(operation));
}

/// Operations on whole rows work on dense copies.
void Executor::rows(const Operation& operation) {
    const bool moves = moves_elements(operation);
    const auto partitions = [](const Space& space) {
        return space.rank > 0 ? space.count[0] : std::int64_t{1};
    };
    const auto columns = [&](const Space& space) {
        return space.size() / std::max<std::int64_t>(1, partitions(space));
    };
    std::array<Rows, 3> sources;
    const int count = source_count(operation);
    for (int k = 0; k < count; ++k) {
        const Space& space = resolved_.source_space(operation, k);
        const Operand from = source(operation, k);
        // What is only moved keeps its format; so do indices, which stay exact as integers.
        const bool own = moves && k < 2;
        const NumberFormat format = own ? from.format : NumberFormat{};
        sources[k] = {densely(from, space, format, false).data, format, partitions(space),
                      columns(space)};
    }
    const Space& space = resolved_.result_space;
    const Operand out = target(operation);
    Operand made;
    if (operation.accumulate) {
        made = densely(out, space, out.format, false);
    } else {
        made.stride = dense_strides(space);
        made.format = moves ? sources[0].format : NumberFormat{};
        const std::int64_t bytes = space.size() * storage_bytes(made.format.storage);
        made.data =
            scratch_.emplace_back(std::make_unique<ScratchBlock>(storage_.pool(), bytes, line_))
                ->data();
    }
    run_rows(operation, extra_of(operation), {sources.data(), static_cast<std::size_t>(count)},
             Rows{made.data, made.format, partitions(space), columns(space)});
    Chain chain;
    chain.add_operand(made);
    run_chain(chain, space, out);
}

nki::Finding onezero_finding(const NotOneZero& broken) {
    nki::Finding finding;
    finding.outcome = "rejected";
    finding.code = "not_onezero";
    finding.operation = "nisa.nc_matmul";
    finding.message = fmt::format(
        "is_{0}_onezero promises ones and zeros only, the {0} operand "
        "holds {1}: the product would lose precision",
        broken.operand, broken.value);
    finding.line = broken.line;
    finding.remedy = fmt::format("drop is_{}_onezero", broken.operand);
    return finding;
}

nki::Finding index_finding(const IndexOutOfBounds& outside) {
    nki::Finding finding;
    finding.outcome = "rejected";
    finding.code = "tensor_access_out_of_bound";
    finding.message =
        fmt::format("an index read from a tensor is {}, the axis it indexes has {} elements",
                    outside.index, outside.size);
    finding.line = outside.line;
    finding.limit = outside.size;
    finding.remedy = "correct the indices, or pass oob_mode=nisa.oob_mode.skip to nisa.dma_copy";
    return finding;
}

}  // namespace accelopt::trainium::execution
