#include <fmt/format.h>

#include <map>

#include "nki/builder.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

// Free sizes of the PE array's operands (NKI documentation, nki.isa.nc_matmul).
constexpr std::int64_t kStationaryFree = 128;
constexpr std::int64_t kMovingFree = 512;
// Largest transposes of the two engines (nki.isa.nc_transpose).
constexpr std::int64_t kTensorTranspose = 128;
constexpr std::int64_t kVectorTranspose = 32;

std::int64_t free_count(const Tile& tile) {
    const std::vector<std::int64_t> shape = tile.shape();
    std::int64_t n = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) n *= shape[d];
    return n;
}

[[noreturn]] void bad_matmul_mask(const Tile& stationary, const Tile& moving, const char* why) {
    rejected("unsupported_expression_in_mask", why)
        .shape(stationary.shape())
        .shape(moving.shape())
        .raise();
}

/// A matmul mask indexes the operands, [K, M] and [K, N]: every term goes to those it fits.
void mask_operands(const MaskExpr& mask, const Tile& stationary, const Tile& moving,
                   IterationSpace& left, IterationSpace& right) {
    MaskExpr onto_left;
    MaskExpr onto_right;
    for (const AffineExpr& term : mask.terms) {
        const std::int64_t free = term.axes[term.rank - 1].count;
        const bool fits_left = free == 1 || free == left.count(left.rank() - 1);
        const bool fits_right = free == 1 || free == right.count(right.rank() - 1);
        if (free > 1 && fits_left && fits_right)
            bad_matmul_mask(stationary, moving,
                            "the mask fits the free axes of both operands of the matmul");
        if (!fits_left && !fits_right)
            bad_matmul_mask(stationary, moving, "the mask fits neither operand of the matmul");
        if (fits_left) onto_left.terms.push_back(term);
        if (fits_right) onto_right.terms.push_back(term);
    }
    if (!left.add_mask(onto_left) || !right.add_mask(onto_right))
        bad_matmul_mask(stationary, moving, "the mask does not fit the operands of the matmul");
}

}  // namespace

void check_matmul_shape(const Tile& stationary, const Tile& moving) {
    for (const Tile* operand : {&stationary, &moving})
        if (operand->dtype > DType::kFloat8E5M2)
            rejected("type_error", fmt::format("the Tensor Engine does not multiply {}",
                                               to_string(operand->dtype)))
                .shape(operand->shape())
                .remedy("convert to a float dtype with nl.copy(tile, dtype=...) first")
                .raise();
    const std::int64_t k = stationary.shape()[0];
    if (k != moving.shape()[0])
        rejected("num_partition_mismatch",
                 fmt::format("the contraction dimensions differ: stationary has {} partitions, "
                             "moving has {}",
                             k, moving.shape()[0]))
            .shape(stationary.shape())
            .shape(moving.shape())
            .raise();
    const auto check = [&](const char* which, std::int64_t size, std::int64_t limit) {
        if (size <= limit) return;
        rejected("size_of_dimension_exceed_arch_limit",
                 fmt::format("the free size {} of the {} operand exceeds the limit of {}", size,
                             which, limit))
            .shape(stationary.shape())
            .shape(moving.shape())
            .limit(limit)
            .remedy("split the product into tiles")
            .raise();
    };
    check("stationary", free_count(stationary), kStationaryFree);
    check("moving", free_count(moving), kMovingFree);
}

void check_transpose_shape(const Tile& source, Engine engine) {
    const std::int64_t partitions = source.shape()[0];
    const std::int64_t columns = free_count(source);
    const std::int64_t limit = engine == Engine::kVector ? kVectorTranspose : kTensorTranspose;
    if (columns <= limit && partitions <= limit) return;
    rejected("size_of_dimension_exceed_arch_limit",
             fmt::format("a transpose takes at most {} x {}; got {} x {}", limit, limit, partitions,
                         columns))
        .shape(source.shape())
        .limit(limit)
        .remedy("transpose tile by tile")
        .raise();
}

void Builder::check_bank(const View& view, const Tile& destination) const {
    const Tensor& t = tensor(view.tensor);
    const std::int64_t size = size_of(t.dtype);
    const std::int64_t start = view.offset % t.free_elements * size;
    std::int64_t last = start;
    for (int d = 1; d < view.rank; ++d)
        last += view.dims[d].stride * (view.dims[d].count - 1) * size;
    if (start / limits_.psum_bank_bytes == last / limits_.psum_bank_bytes) return;
    rejected("size_of_dimension_exceed_arch_limit",
             fmt::format("a matmul result must lie within one PSUM bank of {} bytes per partition",
                         limits_.psum_bank_bytes))
        .shape(destination.shape())
        .limit(limits_.psum_bank_bytes)
        .remedy("write at most 512 float32 columns, aligned to a bank")
        .raise();
}

void Builder::emit_matmul(const OpRequest& request, const Tile& destination) {
    const Tile& stationary = *request.src[0];
    const Tile& moving = *request.src[1];
    check_matmul_shape(stationary, moving);
    IterationSpace left(stationary.shape());
    IterationSpace right(moving.shape());
    if (request.masked) mask_operands(request.mask, stationary, moving, left, right);
    Draft columns = draft(destination);
    if (!columns.bounds.empty()) {
        AxisBound bound;
        bound.axis = columns.bounds.front().axis;
        bound.size = columns.bounds.front().size;
        const std::int64_t at = columns.bounds.front().index.constant;
        raise_out_of_bound(describe(destination), bound, at, at);
    }
    if (columns.count[0] != free_count(stationary)) shape_mismatch(request, destination);
    // The result rides along twice: its columns with those of moving, its rows (as a pattern of
    // whole partitions) with the columns of stationary.
    const std::int64_t pitch = tensor(destination.tensor).free_elements;
    columns.address.step[0] = 0;
    Draft rows = draft(stationary);
    rows.bounds.clear();
    rows.address = Lane{};
    std::int64_t step = pitch;
    for (int d = rows.rank - 1; d >= 1; --d) {
        rows.address.step[d] = step;
        step *= rows.count[d];
    }
    if (!left.add(draft(stationary)) || !left.add(std::move(rows)) || !right.add(draft(moving)) ||
        !right.add(std::move(columns)))
        shape_mismatch(request, destination);
    if (!left.apply_mask() || !right.apply_mask()) return;
    left.simplify();
    right.simplify();
    if (!left.mask().empty() || !right.mask().empty() || left.count(0) != right.count(0))
        bad_matmul_mask(stationary, moving, "a matmul mask must cut a box off its operands");
    const auto name = [this](const Tile& tile) { return describe(tile); };
    left.check_bounds(name);
    right.check_bounds(name);
    Operation op = operation_of(request);
    op.src[0] = view_of(left.operands()[0], left);
    op.src[1] = view_of(right.operands()[0], right);
    const std::int64_t m = op.src[0].free_count();
    if (m != free_count(stationary) && left.rank() != 2)
        bad_matmul_mask(stationary, moving, "a matmul mask must cut a box off its operands");
    Draft result = right.operands()[1];
    result.address.constant += left.operands()[1].address.constant;
    op.dst = view_of(result, right);
    op.dst.dims[0] = {m > 1 ? pitch : 0, m};
    op.masked_columns = free_count(moving) - op.src[1].free_count();
    check_bank(op.dst, destination);
    push(op, request);
}

/// The first product that is added to a part of PSUM starts an accumulation group there: it
/// overwrites. Only zeros that the kernel asks for, or what it wrote itself, are added to.
void Builder::start_groups() {
    if (!open_groups_) return;
    struct Written {
        std::vector<Region> regions;
        RegionIndex index;
    };
    std::map<std::pair<TensorId, std::int64_t>, Written> groups;
    Overlaps overlaps(limits_.comparisons);
    for (Operation& operation : program_.operations) {
        const View& to = operation.dst;
        if (!states_[to.tensor].open) continue;
        const Region region = region_of(to, program_.tensors[to.tensor]);
        Written& written = groups[{to.tensor, to.block}];
        bool known = false;
        bool touched = false;
        written.index.any_near(
            region, [&](std::int64_t work) { overlaps.spend(work); },
            [&](std::int32_t k) {
                const Region& earlier = written.regions[static_cast<std::size_t>(k)];
                known = earlier == region;
                touched = touched || overlaps(earlier, region);
                return known;
            });
        if (known) continue;
        if (!touched && operation.opcode == Opcode::kMatmul) operation.accumulate = false;
        written.index.add(region, static_cast<std::int32_t>(written.regions.size()));
        written.regions.push_back(region);
    }
}

void Builder::emit_transpose(const OpRequest& request, const Tile& destination) {
    const Tile& source = *request.src[0];
    const std::int64_t partitions = source.shape()[0];
    const std::int64_t columns = free_count(source);
    check_transpose_shape(source, request.engine);
    IterationSpace from({partitions, columns});
    IterationSpace to({columns, partitions});
    Draft result = draft(destination);
    if (result.count[0] != columns || !from.add(draft(source)) || !to.add(std::move(result)))
        shape_mismatch(request, destination);
    if (request.masked) {
        // The mask indexes the source.
        if (!from.add_mask(request.mask))
            rejected("unsupported_expression_in_mask",
                     "the mask does not fit the tile to transpose")
                .shape(source.shape())
                .raise();
        if (from.rank() != 2 || to.rank() != 2)
            unsupported("python_feature", "a mask on a transpose of split dimensions").raise();
        if (!from.apply_mask()) return;
        if (!from.mask().empty())
            rejected("unsupported_expression_in_mask", "the mask of a transpose must cut a box")
                .shape(source.shape())
                .raise();
        to.restrict_dim(0, from.origin(1), from.origin(1) + from.count(1));
        to.restrict_dim(1, from.origin(0), from.origin(0) + from.count(0));
    }
    from.simplify();
    to.simplify();
    const auto name = [this](const Tile& tile) { return describe(tile); };
    from.check_bounds(name);
    to.check_bounds(name);
    if (from.rank() > kMaxDims || to.rank() > kMaxDims)
        rejected("exceed_max_supported_dimension",
                 "the access pattern of a transpose has too many dimensions")
            .shape(source.shape())
            .limit(kMaxDims)
            .raise();
    Operation op = operation_of(request);
    op.src[0] = view_of(from.operands()[0], from);
    op.dst = view_of(to.operands()[0], to);
    if (request.sources > 1) {
        // The identity of nc_matmul(is_transpose=True): read, and so loaded, like any operand.
        const Tile& identity = *request.src[1];
        IterationSpace beside({identity.shape()[0], free_count(identity)});
        if (!beside.add(draft(identity))) shape_mismatch(request, destination);
        beside.simplify();
        op.src[1] = view_of(beside.operands()[0], beside);
    }
    push(op, request);
}

}  // namespace accelopt::nki::interp
