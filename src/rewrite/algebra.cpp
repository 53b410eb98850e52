#include "rewrite/algebra.h"

#include <cmath>

namespace accelopt::rewrite {

namespace {

constexpr int kDepth = 8;

void add_part(Linear& form, const Term& tile, double factor) {
    for (std::size_t i = 0; i < form.parts.size(); ++i) {
        if (form.parts[i].tile.key != tile.key) continue;
        form.parts[i].factor += factor;
        return;
    }
    form.parts.push_back({tile, factor});
}

void scale(Linear& form, double factor) {
    form.constant *= factor;
    for (auto& part : form.parts) part.factor *= factor;
}

bool is_one(const Term& term) { return term.is_number() && term.number == 1; }

/// float32 cannot tell the two apart.
bool same_float(double a, double b) { return static_cast<float>(a) == static_cast<float>(b); }

}  // namespace

Term Algebra::resolve(const Term& term) const {
    if (!term.is_tile()) return term;
    const Elementwise* found = definitions_.reaching(term, root_.place, root_.mask);
    return found ? found->term : term;
}

std::optional<Linear> Algebra::linear(const Term& term, int depth) const {
    Linear out;
    if (term.is_number()) {
        out.constant = term.number;
        return out;
    }
    if (term.is_tile()) {
        if (depth > 0) {
            const Term behind = resolve(term);
            if (!behind.is_tile()) {
                if (auto form = linear(behind, depth - 1)) return form;
            }
        }
        add_part(out, term, 1);
        return out;
    }
    if (term.args.size() != 2) return std::nullopt;
    auto a = linear(term.args[0], depth);
    auto b = linear(term.args[1], depth);
    if (!a || !b) return std::nullopt;
    if (term.op == "add" || term.op == "subtract") {
        if (term.op == "subtract") scale(*b, -1);
        for (const auto& part : b->parts) add_part(*a, part.tile, part.factor);
        a->constant += b->constant;
        std::erase_if(a->parts, [](const auto& part) { return part.factor == 0; });
        return a;
    }
    if (term.op == "multiply") {
        if (b->parts.empty()) return scale(*a, b->constant), a;
        if (a->parts.empty()) return scale(*b, a->constant), b;
        return std::nullopt;
    }
    if (term.op == "divide" && b->parts.empty() && b->constant != 0) {
        return scale(*a, 1.0 / b->constant), a;
    }
    return std::nullopt;
}

bool Algebra::same(const Term& a, const Term& b) const {
    if (a.is_tile() && b.is_tile() && a.key == b.key) return true;
    const auto x = linear(a, kDepth);
    const auto y = linear(b, kDepth);
    return x && y && x->single() && y->single() && x->parts[0].tile.key == y->parts[0].tile.key &&
           same_float(x->parts[0].factor, y->parts[0].factor) &&
           same_float(x->constant, y->constant);
}

std::optional<Term> Algebra::exp_denominator(const Term& term) const {
    const Term sum = resolve(term);
    if (!sum.is("add")) return std::nullopt;
    const Term* grown = is_one(sum.args[1])   ? &sum.args[0]
                        : is_one(sum.args[0]) ? &sum.args[1]
                                              : nullptr;
    if (!grown) return std::nullopt;
    const Term power = resolve(*grown);
    if (!power.is("exp")) return std::nullopt;
    auto argument = linear(power.args[0], 0);
    if (!argument || !argument->single()) argument = linear(power.args[0], kDepth);
    if (!argument || !argument->single() || argument->constant != 0) return std::nullopt;
    if (argument->parts[0].factor == -1) return argument->parts[0].tile;
    return std::nullopt;
}

std::optional<Term> Algebra::sigmoid_argument(const Term& term) const {
    const Term value = resolve(term);
    if (value.is("sigmoid")) return value.args[0];
    if (value.is("reciprocal")) return exp_denominator(value.args[0]);
    if (value.is("divide") && is_one(value.args[0])) return exp_denominator(value.args[1]);
    return std::nullopt;
}

std::optional<Term> Algebra::silu_argument(const Term& term) const {
    const Term value = resolve(term);
    if (value.is("divide")) {
        const auto argument = exp_denominator(value.args[1]);
        if (argument && same(*argument, value.args[0])) return argument;
        return std::nullopt;
    }
    if (!value.is("multiply")) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
        const auto argument = sigmoid_argument(value.args[static_cast<std::size_t>(i)]);
        if (argument && same(*argument, value.args[static_cast<std::size_t>(1 - i)])) {
            return argument;
        }
    }
    return std::nullopt;
}

std::optional<Term> Algebra::rsqrt_argument(const Term& term) const {
    const Term value = resolve(term);
    Term root;
    if (value.is("reciprocal")) {
        root = resolve(value.args[0]);
    } else if (value.is("divide") && is_one(value.args[0])) {
        root = resolve(value.args[1]);
    } else if (value.is("sqrt")) {
        root = resolve(value.args[0]);
        return root.is("reciprocal") ? std::optional<Term>(root.args[0]) : std::nullopt;
    }
    return root.is("sqrt") ? std::optional<Term>(root.args[0]) : std::nullopt;
}

const Elementwise* Algebra::available(const Term& tile, double factor) const {
    for (std::size_t i = root_.place.index; i-- > 0;) {
        const Elementwise* item = definitions_.at(*(*root_.place.block)[i]);
        if (!item || item->mask != root_.mask) continue;
        const auto form = linear(item->term, 0);
        if (!form || !form->single() || form->constant != 0) continue;
        if (form->parts[0].tile.key != tile.key || !same_float(form->parts[0].factor, factor)) {
            continue;
        }
        Term held;
        held.kind = Term::Kind::kTile;
        held.tile = item->target;
        held.key = item->target_key;
        if (definitions_.reaching(held, root_.place, root_.mask) == item) return item;
    }
    return nullptr;
}

}  // namespace accelopt::rewrite
