#include "rewrite/index.h"

#include <cstdio>

#include "nki/syntax/printer.h"
#include "rewrite/build.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;

namespace {

constexpr int kDepth = 12;

/// Arithmetic that wraps instead of being undefined: indices of such size are rejected elsewhere.
std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapped_product(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

Affine variable(const std::string& name) {
    Affine out;
    out.variables[name] = 1;
    return out;
}

Affine constant(std::int64_t value) {
    Affine out;
    out.constant = value;
    return out;
}

/// Reads nl.arange(n)[:, None] and bare nl.arange(n).
std::optional<Iota> read_arange(const Kernel& kernel, const Expr& expr) {
    const bool indexed = expr.kind == ExprKind::kSubscript;
    const Expr& call = indexed ? *expr.operands[0] : expr;
    if (kernel.callee(call) != "nl.arange" || call.operands.size() != 2) return std::nullopt;
    const auto size = kernel.integer(*call.operands[1]);
    if (!size || *size <= 0) return std::nullopt;
    if (!indexed) return Iota{*size, 0, 1};
    Iota out{*size, -1, 0};
    for (const Expr* item : indices_of(expr)) {
        if (item->kind == ExprKind::kSlice) {
            if (out.axis >= 0 || item->operands[0] || item->operands[1] || item->operands[2]) {
                return std::nullopt;
            }
            out.axis = out.rank;
        } else if (!is_none(item) && kernel.path(*item) != "np.newaxis") {
            return std::nullopt;
        }
        ++out.rank;
    }
    return out.axis < 0 ? std::nullopt : std::optional<Iota>(out);
}

/// Reads element `position` of nl.mgrid[0:a, 0:b].
std::optional<Iota> read_mgrid(const Kernel& kernel, const Expr& expr, std::size_t position) {
    if (expr.kind != ExprKind::kSubscript || kernel.path(*expr.operands[0]) != "nl.mgrid") {
        return std::nullopt;
    }
    const auto items = indices_of(expr);
    if (position >= items.size()) return std::nullopt;
    const Expr& slice = *items[position];
    if (slice.kind != ExprKind::kSlice || !slice.operands[1] || slice.operands[2]) {
        return std::nullopt;
    }
    const auto low = slice.operands[0] ? kernel.integer(*slice.operands[0]) : 0;
    const auto high = kernel.integer(*slice.operands[1]);
    if (!low || *low != 0 || !high || *high <= 0) return std::nullopt;
    return Iota{*high, static_cast<int>(position), static_cast<int>(items.size())};
}

std::optional<Affine> affine_name(const Kernel& kernel, const Expr& expr, int depth) {
    const Binding* bound = kernel.binding(expr.text);
    if (!bound || bound->count != 1 || bound->updated || bound->parameter) return std::nullopt;
    if (bound->loop_variable) {
        // The variable of a loop that runs once is a number.
        const auto range = kernel.loop_range(*bound->stmt);
        return range && range->trips == 1 ? std::optional<Affine>(constant(range->start))
                                          : std::nullopt;
    }
    if (const Expr* value = bound->only()) {
        switch (value->kind) {
            case ExprKind::kBinary:
            case ExprKind::kUnary:
            case ExprKind::kName:
            case ExprKind::kConstant:
            case ExprKind::kSubscript:
            case ExprKind::kCall: {
                Affine out = affine(kernel, *value, depth + 1);
                // An opaque value is better known by its name.
                const bool opaque = out.iotas.empty() && out.constant == 0 &&
                                    out.variables.size() == 1 &&
                                    out.variables.begin()->first.front() == '$';
                return opaque ? std::nullopt : std::optional<Affine>(out);
            }
            default:
                return std::nullopt;
        }
    }
    if (bound->unpacked && bound->element >= 0) {
        const auto position = static_cast<std::size_t>(bound->element);
        if (const auto iota = read_mgrid(kernel, *bound->unpacked, position)) {
            Affine out;
            out.iotas[*iota] = 1;
            return out;
        }
        if (bound->unpacked->kind == ExprKind::kTuple &&
            position < bound->unpacked->operands.size()) {
            return affine(kernel, *bound->unpacked->operands[position], depth + 1);
        }
    }
    return std::nullopt;
}

void prune(Affine& value) {
    std::erase_if(value.variables, [](const auto& entry) { return entry.second == 0; });
    std::erase_if(value.iotas, [](const auto& entry) { return entry.second == 0; });
}

bool is_constant(const Affine& value) { return value.variables.empty() && value.iotas.empty(); }

}  // namespace

std::int64_t Affine::coefficient(const std::string& variable) const {
    const auto entry = variables.find(variable);
    return entry == variables.end() ? 0 : entry->second;
}

bool Affine::depends_on(const std::string& name) const {
    for (const auto& [text, factor] : variables) {
        if (text == name) return true;
        // Opaque text: be careful.
        if (text.front() == '$' && text.find(name) != std::string::npos) return true;
    }
    return false;
}

std::string Affine::key() const {
    std::string out = std::to_string(constant);
    for (const auto& [name, factor] : variables) out += "+" + std::to_string(factor) + "*" + name;
    for (const auto& [iota, factor] : iotas) {
        out += "+" + std::to_string(factor) + "*iota(" + std::to_string(iota.size) + "@" +
               std::to_string(iota.axis) + "/" + std::to_string(iota.rank) + ")";
    }
    return out;
}

Affine operator+(const Affine& a, const Affine& b) {
    Affine out = a;
    out.constant = wrapped_sum(out.constant, b.constant);
    for (const auto& [name, factor] : b.variables) {
        out.variables[name] = wrapped_sum(out.variables[name], factor);
    }
    for (const auto& [iota, factor] : b.iotas) {
        out.iotas[iota] = wrapped_sum(out.iotas[iota], factor);
    }
    prune(out);
    return out;
}

Affine operator*(const Affine& a, std::int64_t factor) {
    Affine out = a;
    out.constant = wrapped_product(out.constant, factor);
    for (auto& [name, value] : out.variables) value = wrapped_product(value, factor);
    for (auto& [iota, value] : out.iotas) value = wrapped_product(value, factor);
    prune(out);
    return out;
}

Affine affine(const Kernel& kernel, const Expr& expr, int depth) {
    if (depth > kDepth) return variable("$" + nki::print(expr));
    if (const auto number = kernel.integer(expr)) return constant(*number);
    if (const auto iota = read_arange(kernel, expr)) {
        Affine out;
        out.iotas[*iota] = 1;
        return out;
    }
    if (expr.kind == ExprKind::kName) {
        if (auto value = affine_name(kernel, expr, depth)) return *value;
        return variable(expr.text);
    }
    if (expr.kind == ExprKind::kUnary && expr.text == "-") {
        return affine(kernel, *expr.operands[0], depth + 1) * -1;
    }
    if (expr.kind == ExprKind::kBinary &&
        (expr.text == "+" || expr.text == "-" || expr.text == "*")) {
        const Affine a = affine(kernel, *expr.operands[0], depth + 1);
        const Affine b = affine(kernel, *expr.operands[1], depth + 1);
        if (expr.text == "+") return a + b;
        if (expr.text == "-") return a + b * -1;
        if (is_constant(a)) return b * a.constant;
        if (is_constant(b)) return a * b.constant;
    }
    return variable("$" + nki::print(expr));
}

std::string Index::key() const {
    switch (kind) {
        case IndexKind::kPoint:
            return "[" + offset.key() + "]";
        case IndexKind::kRange:
            return "[" + offset.key() + ":" + std::to_string(size) + ":" + std::to_string(stride) +
                   "]";
        case IndexKind::kFull:
            return "[:]";
        case IndexKind::kEllipsis:
            return "[...]";
        case IndexKind::kNewAxis:
            return "[None]";
        case IndexKind::kOther:
            return "[" + offset.key() + "?]";
    }
    return "";
}

namespace {

Index read_slice(const Kernel& kernel, const Expr& expr) {
    Index out;
    if (!expr.operands[0] && !expr.operands[1] && !expr.operands[2]) {
        out.kind = IndexKind::kFull;
        return out;
    }
    out.offset = variable("$" + nki::print(expr));
    if (expr.operands[2] && kernel.integer(*expr.operands[2]) != 1) return out;
    const Affine low = expr.operands[0] ? affine(kernel, *expr.operands[0]) : constant(0);
    if (!expr.operands[1]) return out;
    const Affine extent = affine(kernel, *expr.operands[1]) + low * -1;
    if (!is_constant(extent) || extent.constant <= 0 || !low.iotas.empty()) return out;
    out.kind = IndexKind::kRange;
    out.offset = low;
    out.size = extent.constant;
    return out;
}

Index read_index(const Kernel& kernel, const Expr& expr) {
    Index out;
    if (expr.kind == ExprKind::kSlice) return read_slice(kernel, expr);
    if (expr.kind == ExprKind::kConstant) {
        if (std::holds_alternative<nki::Ellipsis>(expr.constant)) {
            out.kind = IndexKind::kEllipsis;
            return out;
        }
        if (std::holds_alternative<nki::None>(expr.constant)) {
            out.kind = IndexKind::kNewAxis;
            return out;
        }
    }
    if (kernel.callee(expr) == "nl.ds" && expr.operands.size() == 3) {
        const auto size = kernel.integer(*expr.operands[2]);
        out.offset = affine(kernel, *expr.operands[1]);
        if (size && *size > 0) {
            out.kind = IndexKind::kRange;
            out.size = *size;
        }
        return out;
    }
    out.offset = affine(kernel, expr);
    if (out.offset.iotas.empty()) {
        bool opaque = false;
        for (const auto& [name, factor] : out.offset.variables) opaque |= name.front() == '$';
        out.kind = opaque ? IndexKind::kOther : IndexKind::kPoint;
        return out;
    }
    if (out.offset.iotas.size() != 1) return out;
    const auto [iota, stride] = *out.offset.iotas.begin();
    out.kind = IndexKind::kRange;
    out.iota = iota;
    out.size = iota.size;
    out.stride = stride;
    out.offset.iotas.clear();
    return out;
}

}  // namespace

std::vector<Index> read_indices(const Kernel& kernel, const Expr& subscript) {
    std::vector<Index> out;
    for (const Expr* item : indices_of(subscript)) out.push_back(read_index(kernel, *item));
    return out;
}

namespace {

std::string real_key(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
}

}  // namespace

std::string canonical_key(const Kernel& kernel, const Expr& expr) {
    if (const auto number = kernel.number(expr)) {
        if (number->integral) return std::to_string(number->integer);
        return real_key(number->real);
    }
    if (expr.kind == ExprKind::kSubscript) {
        std::string out = canonical_key(kernel, *expr.operands[0]);
        for (const Index& index : read_indices(kernel, expr)) out += index.key();
        return out;
    }
    if (expr.kind == ExprKind::kBinary || expr.kind == ExprKind::kCompare ||
        expr.kind == ExprKind::kBoolean || expr.kind == ExprKind::kUnary) {
        std::string out = "(" + expr.text;
        for (const std::string& comparator : expr.comparators) out += comparator;
        for (const auto& operand : expr.operands) {
            const Affine value = affine(kernel, *operand);
            bool opaque = false;
            for (const auto& [name, factor] : value.variables) opaque |= name.front() == '$';
            out += " " + (opaque ? canonical_key(kernel, *operand) : value.key());
        }
        return out + ")";
    }
    const std::string path = kernel.path(expr);
    return path.empty() ? nki::print(expr) : path;
}

std::string mask_key(const Kernel& kernel, const Expr& mask) {
    if (mask.kind == ExprKind::kName) {
        const Binding* bound = kernel.binding(mask.text);
        if (bound && bound->only()) return mask_key(kernel, *bound->only());
    }
    return canonical_key(kernel, mask);
}

namespace {

bool depends(const Kernel& kernel, const Expr& expr, const std::string& name,
             std::set<std::string>& seen) {
    std::set<std::string> names;
    collect_names(expr, names);
    for (const std::string& text : names) {
        if (text == name) return true;
        const Binding* bound = kernel.binding(text);
        if (!bound || !seen.insert(text).second) continue;
        for (const Expr* value : bound->values) {
            if (!kernel.number(*value) && depends(kernel, *value, name, seen)) return true;
        }
        if (bound->unpacked && depends(kernel, *bound->unpacked, name, seen)) return true;
    }
    return false;
}

}  // namespace

bool depends_on(const Kernel& kernel, const Expr& expr, const std::string& name) {
    std::set<std::string> seen;
    return depends(kernel, expr, name, seen);
}

}  // namespace accelopt::rewrite
