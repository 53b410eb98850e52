#include <algorithm>
#include <cmath>

#include "rewrite/build.h"
#include "rewrite/index.h"
#include "rewrite/kernel.h"
#include "rewrite/operation.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::Stmt;
using nki::StmtKind;

namespace {

constexpr int kDepth = 64;
constexpr std::int64_t kLargest = std::int64_t{1} << 53;

Number of_integer(std::int64_t value) { return {true, value, static_cast<double>(value)}; }
Number of_real(double value) { return {false, 0, value}; }

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
    const std::int64_t q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

std::optional<Number> binary(const std::string& op, const Number& a, const Number& b) {
    const bool integral = a.integral && b.integral;
    if (op == "//" || op == "%") {
        if (!integral || b.integer == 0) return std::nullopt;
        const std::int64_t q = floor_div(a.integer, b.integer);
        return of_integer(op == "//" ? q : a.integer - q * b.integer);
    }
    if (op == "/") {
        if (b.real == 0) return std::nullopt;
        return of_real(a.real / b.real);
    }
    double value = 0;
    if (op == "+") {
        value = a.real + b.real;
    } else if (op == "-") {
        value = a.real - b.real;
    } else if (op == "*") {
        value = a.real * b.real;
    } else if (op == "**") {
        if (integral && b.integer < 0) return of_real(std::pow(a.real, b.real));
        value = std::pow(a.real, b.real);
    } else {
        return std::nullopt;
    }
    if (!std::isfinite(value)) return std::nullopt;
    if (!integral) return of_real(value);
    if (std::abs(value) > static_cast<double>(kLargest)) return std::nullopt;
    return of_integer(static_cast<std::int64_t>(value));
}

std::optional<std::int64_t> hardware_constant(const std::string& path) {
    if (path == "nl.tile_size.pmax" || path == "nl.tile_size.gemm_stationary_fmax") return 128;
    if (path == "nl.tile_size.gemm_moving_fmax" || path == "nl.tile_size.psum_fmax") return 512;
    return std::nullopt;
}

std::optional<Shape> broadcast(const std::optional<Shape>& a, const std::optional<Shape>& b) {
    if (!a || !b) return std::nullopt;
    Shape out(std::max(a->size(), b->size()), 1);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::int64_t x = i < a->size() ? (*a)[a->size() - 1 - i] : 1;
        const std::int64_t y = i < b->size() ? (*b)[b->size() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) return std::nullopt;
        out[out.size() - 1 - i] = std::max(x, y);
    }
    return out;
}

}  // namespace

std::optional<Number> Kernel::element_number(const Expr& value, int element, int depth) const {
    if (value.kind == ExprKind::kTuple || value.kind == ExprKind::kList) {
        if (element < 0 || element >= static_cast<int>(value.operands.size())) return std::nullopt;
        return number(*value.operands[static_cast<std::size_t>(element)], depth + 1);
    }
    if (value.kind == ExprKind::kAttribute && value.text == "shape") {
        const auto extents = shape(*value.operands[0], depth + 1);
        if (!extents || element < 0 || element >= static_cast<int>(extents->size())) {
            return std::nullopt;
        }
        return of_integer((*extents)[static_cast<std::size_t>(element)]);
    }
    if (value.kind == ExprKind::kName) {
        const Binding* bound = binding(value.text);
        if (bound && bound->only() && depth < kDepth) {
            return element_number(*bound->only(), element, depth + 1);
        }
    }
    return std::nullopt;
}

std::optional<Number> Kernel::call_number(const Expr& call, int depth) const {
    // np.dtype(np.float32).type(x) and np.float32(x) are x for what rewrites decide.
    const Expr& head = *call.operands[0];
    const std::string path = callee(call);
    const bool typed = head.kind == ExprKind::kAttribute && head.text == "type" &&
                       head.operands[0]->kind == ExprKind::kCall &&
                       callee(*head.operands[0]) == "np.dtype";
    const bool wrapped = typed || path == "np.float32" || path == "float" || path == "int";
    if (wrapped && call.operands.size() == 2) {
        auto value = number(*call.operands[1], depth + 1);
        if (value && path == "int" && !value->integral) return std::nullopt;
        if (value && (path == "np.float32" || path == "float")) value->integral = false;
        return value;
    }
    if ((path == "min" || path == "max") && call.operands.size() > 2) {
        std::optional<Number> best;
        for (std::size_t i = 1; i < call.operands.size(); ++i) {
            const auto value = number(*call.operands[i], depth + 1);
            if (!value) return std::nullopt;
            const bool better =
                !best || (path == "min" ? value->real < best->real : value->real > best->real);
            if (better) best = value;
        }
        return best;
    }
    if ((path == "math.ceil" || path == "math.floor") && call.operands.size() == 2) {
        const auto value = number(*call.operands[1], depth + 1);
        if (!value) return std::nullopt;
        const double real = path == "math.ceil" ? std::ceil(value->real) : std::floor(value->real);
        if (std::abs(real) > static_cast<double>(kLargest)) return std::nullopt;
        return of_integer(static_cast<std::int64_t>(real));
    }
    if (path == "math.sqrt" && call.operands.size() == 2) {
        const auto value = number(*call.operands[1], depth + 1);
        if (value && value->real >= 0) return of_real(std::sqrt(value->real));
    }
    return std::nullopt;
}

std::optional<Number> Kernel::number(const Expr& expr, int depth) const {
    if (depth > kDepth) return std::nullopt;
    switch (expr.kind) {
        case ExprKind::kConstant:
            if (const auto* integer = std::get_if<std::int64_t>(&expr.constant)) {
                // Larger ones are no sizes, and arithmetic on them could overflow.
                if (*integer > kLargest || *integer < -kLargest) return std::nullopt;
                return of_integer(*integer);
            }
            if (const auto* real = std::get_if<double>(&expr.constant)) return of_real(*real);
            return std::nullopt;
        case ExprKind::kName: {
            const Binding* bound = binding(expr.text);
            if (!bound || bound->count != 1 || bound->updated || bound->loop_variable ||
                bound->parameter) {
                return std::nullopt;
            }
            if (bound->only()) return number(*bound->only(), depth + 1);
            if (bound->unpacked) return element_number(*bound->unpacked, bound->element, depth + 1);
            return std::nullopt;
        }
        case ExprKind::kUnary: {
            const auto value = number(*expr.operands[0], depth + 1);
            if (!value || (expr.text != "-" && expr.text != "+")) return std::nullopt;
            if (expr.text == "+") return value;
            return value->integral ? of_integer(-value->integer) : of_real(-value->real);
        }
        case ExprKind::kBinary: {
            const auto a = number(*expr.operands[0], depth + 1);
            if (!a) return std::nullopt;
            const auto b = number(*expr.operands[1], depth + 1);
            return b ? binary(expr.text, *a, *b) : std::nullopt;
        }
        case ExprKind::kSubscript: {
            const Expr& base = *expr.operands[0];
            if (base.kind != ExprKind::kAttribute && base.kind != ExprKind::kName) {
                return std::nullopt;
            }
            const bool shape = base.kind == ExprKind::kAttribute && base.text == "shape";
            const Binding* bound = base.kind == ExprKind::kName ? binding(base.text) : nullptr;
            const bool tuple = bound && bound->only() &&
                               (bound->only()->kind == ExprKind::kTuple ||
                                bound->only()->kind == ExprKind::kAttribute);
            if (!shape && !tuple) return std::nullopt;
            const auto element = number(*expr.operands[1], depth + 1);
            if (!element || !element->integral || element->integer < 0) return std::nullopt;
            return element_number(base, static_cast<int>(element->integer), depth + 1);
        }
        case ExprKind::kAttribute:
            if (const auto value = hardware_constant(path(expr))) return of_integer(*value);
            return std::nullopt;
        case ExprKind::kCall:
            return call_number(expr, depth);
        default:
            return std::nullopt;
    }
}

std::optional<std::int64_t> Kernel::integer(const Expr& expr) const {
    const auto value = number(expr);
    if (!value || !value->integral) return std::nullopt;
    return value->integer;
}

std::optional<double> Kernel::real(const Expr& expr) const {
    const auto value = number(expr);
    return value ? std::optional<double>(value->real) : std::nullopt;
}

std::optional<double> Kernel::fill_value(const Expr& expr) const {
    if (const auto value = real(expr)) return value;
    const std::string base = base_name(expr);
    if (base.empty()) return std::nullopt;
    const auto known = fill_values_.find(base);
    if (known != fill_values_.end()) return known->second;
    return fill_values_[base] = array_fill(base);
}

std::optional<double> Kernel::array_fill(const std::string& base) const {
    const Binding* bound = binding(base);
    if (!bound || bound->count != 1 || bound->updated || !bound->only()) return std::nullopt;
    auto value_of = [&](const Expr& call) -> std::optional<double> {
        const std::string path = callee(call);
        if (path == "nl.zeros") return 0.0;
        if (path == "nl.ones") return 1.0;
        if (path == "nl.full" || path == "nisa.memset") {
            const Expr* value = argument(call, 1, path == "nl.full" ? "fill_value" : "value");
            return value ? real(*value) : std::nullopt;
        }
        return std::nullopt;
    };
    // Every write must put the same value.
    std::optional<double> found = value_of(*bound->only());
    if (!found && !allocation(base)) return std::nullopt;
    bool same = true;
    bool written = found.has_value();
    for (const Place& place : places(function_->body)) {
        for (const auto& target : place.stmt->targets) {
            if (target->kind != ExprKind::kSubscript ||
                memory(base_name(*target)) != memory(base)) {
                continue;
            }
            const auto value =
                place.stmt->kind == StmtKind::kAssign && place.loops.empty() && !place.guarded
                    ? value_of(*place.stmt->value)
                    : std::nullopt;
            same = same && value && (!found || *found == *value);
            if (value) found = value;
            written = true;
        }
    }
    return same && written ? found : std::nullopt;
}

std::optional<LoopRange> Kernel::loop_range(const Stmt& stmt) const {
    if (stmt.kind != StmtKind::kFor || stmt.targets.size() != 1 || !stmt.otherwise.empty() ||
        stmt.targets[0]->kind != ExprKind::kName || stmt.value->kind != ExprKind::kCall ||
        !stmt.value->keywords.empty()) {
        return std::nullopt;
    }
    const Binding* bound = binding(stmt.targets[0]->text);
    if (!bound || bound->updated || !bound->values.empty()) return std::nullopt;
    const std::string path = callee(*stmt.value);
    if (path != "range" && path != "nl.affine_range" && path != "nl.sequential_range" &&
        path != "nl.static_range") {
        return std::nullopt;
    }
    const std::size_t count = stmt.value->operands.size() - 1;
    if (count < 1 || count > 3) return std::nullopt;
    std::vector<std::int64_t> values;
    for (std::size_t i = 1; i <= count; ++i) {
        const auto value = integer(*stmt.value->operands[i]);
        if (!value) return std::nullopt;
        values.push_back(*value);
    }
    LoopRange out;
    out.variable = stmt.targets[0]->text;
    out.associative = path == "nl.affine_range";
    out.start = count > 1 ? values[0] : 0;
    const std::int64_t stop = count > 1 ? values[1] : values[0];
    out.step = count > 2 ? values[2] : 1;
    if (out.step <= 0) return std::nullopt;
    out.trips = stop > out.start ? (stop - out.start + out.step - 1) / out.step : 0;
    return out;
}

std::optional<Shape> Kernel::shape_argument(const Expr& expr) const {
    const Expr* tuple = &expr;
    if (expr.kind == ExprKind::kName) {
        const Binding* bound = binding(expr.text);
        if (bound && bound->only()) tuple = bound->only();
    }
    if (tuple->kind == ExprKind::kAttribute && tuple->text == "shape") {
        return shape(*tuple->operands[0]);
    }
    if (tuple->kind != ExprKind::kTuple && tuple->kind != ExprKind::kList) return std::nullopt;
    Shape out;
    for (const auto& item : tuple->operands) {
        const bool partition = callee(*item) == "nl.par_dim" && item->operands.size() == 2;
        const auto extent = integer(partition ? *item->operands[1] : *item);
        if (!extent || *extent <= 0) return std::nullopt;
        out.push_back(*extent);
    }
    return out;
}

bool Kernel::names_api(const Expr& expr) const {
    const std::string text = path(expr);
    return text.rfind("nl.", 0) == 0 || text.rfind("np.", 0) == 0 || text.rfind("nisa.", 0) == 0;
}

std::optional<Shape> Kernel::call_shape(const Expr& call, int depth) const {
    const std::string path = callee(call);
    const Expr& head = *call.operands[0];
    if (head.kind == ExprKind::kAttribute && call.operands.size() > 1 &&
        (head.text == "reshape" || head.text == "broadcast_to") && path.rfind("nl.", 0) != 0) {
        return shape_argument(*call.operands[1]);
    }
    auto of = [&](std::size_t position, const char* keyword) -> std::optional<Shape> {
        const Expr* value = argument(call, position, keyword);
        return value ? shape(*value, depth + 1) : std::nullopt;
    };
    if (path == "nl.broadcast_to") {
        const Expr* target = argument(call, 1, "shape");
        return target ? shape_argument(*target) : std::nullopt;
    }
    if (path == "nisa.activation") return of(1, "data");
    if (path == "nisa.tensor_reduce" || path == "nl.sum" || path == "nl.max" || path == "nl.mean" ||
        path == "nl.min" || path == "nisa.activation_reduce") {
        const bool second = path == "nisa.tensor_reduce" || path == "nisa.activation_reduce";
        const auto data = of(second ? 1 : 0, second ? "data" : "x");
        if (!data || data->size() != 2) return std::nullopt;
        return Shape{(*data)[0], 1};
    }
    if (path == "nl.matmul" || path == "nisa.nc_matmul") {
        const bool nisa = path == "nisa.nc_matmul";
        const auto a = of(0, nisa ? "stationary" : "x");
        const auto b = of(1, nisa ? "moving" : "y");
        if (!a || !b || a->size() != 2 || b->size() != 2) return std::nullopt;
        const Expr* transposed = argument(call, 2, "transpose_x");
        bool is_true = nisa;
        if (!nisa && transposed) {
            const bool* flag = std::get_if<bool>(&transposed->constant);
            if (transposed->kind != ExprKind::kConstant || !flag) return std::nullopt;
            is_true = *flag;
        }
        return Shape{(*a)[is_true ? 1 : 0], (*b)[1]};
    }
    switch (call_kind(path)) {
        case CallKind::kLoad:
            return of(0, "src");
        case CallKind::kAllocate:
        case CallKind::kFill: {
            const Expr* extents = argument(call, 0, "shape");
            return extents ? shape_argument(*extents) : std::nullopt;
        }
        case CallKind::kTranspose: {
            auto out = of(0, path == "nl.transpose" ? "x" : "data");
            if (!out || out->size() != 2) return std::nullopt;
            std::swap((*out)[0], (*out)[1]);
            return out;
        }
        case CallKind::kElementwise: {
            std::optional<Shape> out;
            bool known = true;
            auto merge = [&](const Expr& value) {
                const auto extents = shape(value, depth + 1);
                if (extents) {
                    out = out ? broadcast(out, extents) : extents;
                    known = known && out;
                    return;
                }
                // Numbers, operators and scalar arguments have no shape.
                const bool scalar = number(value) || is_none(&value) || names_api(value) ||
                                    (value.kind == ExprKind::kName && is_input(value.text));
                known = known && scalar;
            };
            for (std::size_t i = 1; i < call.operands.size(); ++i) merge(*call.operands[i]);
            for (const auto& keyword : call.keywords) {
                if (keyword.name == "data" || keyword.name == "x" || keyword.name == "y" ||
                    keyword.name == "data1" || keyword.name == "data2" || keyword.name == "src") {
                    merge(*keyword.value);
                }
            }
            return known ? out : std::nullopt;
        }
        default:
            return std::nullopt;
    }
}

std::optional<Shape> Kernel::name_shape(const Expr& name, int depth) const {
    const auto input = inputs_.find(name.text);
    if (input != inputs_.end()) return input->second;
    const Binding* bound = binding(name.text);
    if (!bound || bound->values.empty() || bound->unpacked || bound->loop_variable) {
        return std::nullopt;
    }
    // A name defined by itself has no shape; the entry also ends the recursion.
    const auto [known, fresh] = name_shapes_.emplace(name.text, std::nullopt);
    if (!fresh) return known->second;
    std::optional<Shape> out;
    for (const Expr* value : bound->values) {
        const auto extents = shape(*value, depth + 1);
        if (!extents || (out && *out != *extents)) {
            name_shapes_[name.text] = std::nullopt;
            return std::nullopt;
        }
        out = extents;
        // A later value may be computed from this one.
        name_shapes_[name.text] = out;
    }
    return out;
}

std::optional<Shape> Kernel::subscript_shape(const Expr& expr, int depth) const {
    const auto indices = read_indices(*this, expr);
    const auto base = shape(*expr.operands[0], depth + 1);
    Shape by_iota;
    Shape basic;
    std::size_t axis = 0;
    for (const Index& index : indices) {
        if (index.kind == IndexKind::kOther) return std::nullopt;
        if (index.kind == IndexKind::kEllipsis) return indices.size() == 1 ? base : std::nullopt;
        if (index.kind == IndexKind::kNewAxis) {
            basic.push_back(1);
            continue;
        }
        if (index.iota) {
            const auto rank = static_cast<std::size_t>(index.iota->rank);
            by_iota.resize(std::max(by_iota.size(), rank), 1);
            by_iota[static_cast<std::size_t>(index.iota->axis)] = index.size;
        } else if (index.kind == IndexKind::kRange) {
            basic.push_back(index.size);
        } else if (index.kind == IndexKind::kFull) {
            if (!base || axis >= base->size()) return std::nullopt;
            basic.push_back((*base)[axis]);
        }
        ++axis;
    }
    if (!by_iota.empty() && !basic.empty()) return std::nullopt;
    if (!by_iota.empty()) return by_iota;
    if (!base) {
        return axis == 2 && basic.size() == 2 ? std::optional<Shape>(basic) : std::nullopt;
    }
    for (; axis < base->size(); ++axis) basic.push_back((*base)[axis]);
    return basic;
}

std::optional<Shape> Kernel::shape(const Expr& expr, int depth) const {
    auto out = any_shape(expr, depth);
    // A scalar has no shape here: callers look at the last dimension.
    return out && out->empty() ? std::nullopt : out;
}

std::optional<Shape> Kernel::any_shape(const Expr& expr, int depth) const {
    if (depth > kDepth) return std::nullopt;
    switch (expr.kind) {
        case ExprKind::kName:
            return name_shape(expr, depth);
        case ExprKind::kSubscript:
            return subscript_shape(expr, depth);
        case ExprKind::kBinary: {
            const auto a = shape(*expr.operands[0], depth + 1);
            const auto b = shape(*expr.operands[1], depth + 1);
            if (a && b) return broadcast(a, b);
            if (a && number(*expr.operands[1])) return a;
            if (b && number(*expr.operands[0])) return b;
            return std::nullopt;
        }
        case ExprKind::kUnary:
            return shape(*expr.operands[0], depth + 1);
        case ExprKind::kCall:
            return call_shape(expr, depth);
        default:
            return std::nullopt;
    }
}

}  // namespace accelopt::rewrite
