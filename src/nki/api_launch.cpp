#include <fmt/format.h>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

/// Functions about how a kernel is launched, compiled and looped.
namespace accelopt::nki::interp::api {
namespace {

/// An integer that differs between program instances.
Value symbolic(std::int64_t value) {
    Value made = Value::integer(value);
    made.set_marks(Value::kSymbolic);
    return made;
}

}  // namespace

Value loop_range(ApiCall& call) {
    const Ref<Range> range = call.host().heap().make<Range>();
    const bool two = call.has(1);
    range->start = two ? call.integer(0) : 0;
    range->stop = call.integer(two ? 1 : 0);
    if (call.has(2)) range->step = call.integer(2);
    if (range->step == 0) rejected("value_error", "the step of a range cannot be zero").raise();
    const std::string_view name = call.entry().name;
    range->kind = name == "nl.affine_range"       ? LoopKind::kAffine
                  : name == "nl.sequential_range" ? LoopKind::kSequential
                                                  : LoopKind::kStatic;
    return Value::object(Kind::kRange, range);
}

Value program_id(ApiCall& call) {
    const std::vector<std::int64_t>& ids = call.host().program();
    std::int64_t axis = call.integer(0);
    if (ids.empty() && axis == 0) return Value::integer(0);  // launched without a grid
    if (axis < 0) axis += static_cast<std::int64_t>(ids.size());
    if (axis < 0 || axis >= static_cast<std::int64_t>(ids.size()))
        rejected("value_error", fmt::format("the launch grid has {} axes", ids.size()))
            .limit(static_cast<std::int64_t>(ids.size()))
            .raise();
    return symbolic(ids[static_cast<std::size_t>(axis)]);
}

Value num_programs(ApiCall& call) {
    const std::vector<std::int64_t>& grid = call.host().grid();
    const auto size_of_axis = [&](std::int64_t axis) {
        if (axis < 0) axis += static_cast<std::int64_t>(grid.size());
        if (grid.empty() && axis == 0) return std::int64_t{1};
        if (axis < 0 || axis >= static_cast<std::int64_t>(grid.size()))
            rejected("value_error", fmt::format("the launch grid has {} axes", grid.size()))
                .limit(static_cast<std::int64_t>(grid.size()))
                .raise();
        return grid[static_cast<std::size_t>(axis)];
    };
    std::int64_t n = 1;
    if (!call.has(0)) {
        for (const std::int64_t size : grid) n *= size;
    } else {
        for (const std::int64_t axis : call.shape(0)) n *= size_of_axis(axis);
    }
    return Value::integer(n);
}

Value program_ndim(ApiCall& call) {
    return Value::integer(static_cast<std::int64_t>(call.host().grid().size()));
}

Value all_reduce(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    call.alu(1);
    std::int64_t programs = 1;
    const std::vector<std::int64_t>& grid = call.host().grid();
    for (std::int64_t axis : call.shape(2)) {
        if (axis < 0) axis += static_cast<std::int64_t>(grid.size());
        if (axis >= 0 && axis < static_cast<std::int64_t>(grid.size()))
            programs *= grid[static_cast<std::size_t>(axis)];
    }
    if (programs > 1)
        unsupported("unknown_api",
                    "nl.all_reduce over several programs: instances are traced one after another")
            .limit(1)
            .remedy("accumulate in one program, or through HBM with nl.atomic_rmw")
            .raise();
    OpRequest request = call.request(Opcode::kCopy);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    return call.pending(std::move(request));
}

Value allocation(ApiCall& call) {
    const Ref<Allocation> made = call.host().heap().make<Allocation>();
    const std::string_view name = call.entry().name;
    made->buffer = name.find(".psum.") != std::string_view::npos ? Buffer::kPsum : Buffer::kSbuf;
    const Value value = Value::object(Kind::kAllocation, made);
    if (name.ends_with(".auto_alloc")) {
        made->automatic = true;
        return value;
    }
    if (name.ends_with(".alloc")) {
        if (!call[0].is(Kind::kFunction) && !call[0].is(Kind::kPartial))
            call.bad_argument(0, "a function of (idx, pdim_size, fdim_size)");
        made->function = call[0];
        return value;
    }
    const auto number = [&](const char* parameter, std::int64_t& into) {
        const int k = call.at(parameter);
        if (call.has(k)) into = call.integer(k);
    };
    const auto tiles = [&](const char* parameter, std::vector<std::int64_t>& into) {
        const int k = call.at(parameter);
        if (!call.has(k)) return;
        into = call.shape(k);
        for (const std::int64_t n : into)
            if (n < 1) call.bad_argument(k, "numbers above 0");
    };
    number("base_addr", made->base_address);
    number("base_partition", made->base_partition);
    tiles("num_par_tiles", made->partition_tiles);
    tiles("num_free_tiles", made->free_tiles);
    if (made->buffer == Buffer::kPsum) {
        number("base_bank", made->base_bank);
        tiles("num_bank_tiles", made->bank_tiles);
    }
    return value;
}

Value decorator(ApiCall& call) {
    // @nki.jit, or @nki.jit(...), which evaluates to a decorator.
    if (call.has(0)) return call[0];
    return Value::token(Kind::kApi, call.host().api().find(call.entry().name));
}

Value compiler_decorator(ApiCall& call) { return decorator(call); }

Value force_auto_alloc(ApiCall& call) {
    call.host().builder().ignore_allocations();
    return decorator(call);
}

Value compiler_scope(ApiCall&) {
    return Value::token(Kind::kToken, static_cast<int>(TokenId::kNamedScope));
}

Value device_print(ApiCall& call) {
    call.tile(1);
    return Value::none();
}

Value get_nc_version(ApiCall& call) {
    return Value::token(
        Kind::kToken,
        static_cast<int>(call.host().core_version() >= 3 ? TokenId::kGen3 : TokenId::kGen2));
}

Value finfo(ApiCall& call) {
    Value made = Value::token(Kind::kToken, static_cast<int>(TokenId::kFinfoValue));
    made.set_dtype(call.dtype(0));
    return made;
}

Value gemm_grid(ApiCall& call) {
    const bool stationary = call.entry().name == "nl.gemm_stationary_grid";
    const std::int64_t sizes[] = {128, stationary ? 128 : 512};
    std::vector<Value> items;
    for (int axis = 0; axis < 2; ++axis) {
        AffineExpr expr;
        expr.rank = 2;
        for (int d = 0; d < 2; ++d) expr.axes[d] = {d == axis ? 1 : 0, sizes[d]};
        items.push_back(Value::object(Kind::kAffine, call.host().heap().make<Affine>(expr)));
    }
    Value grid = call.host().tuple(std::move(items));
    grid.as<Sequence>().grid = true;
    return grid;
}

}  // namespace accelopt::nki::interp::api
