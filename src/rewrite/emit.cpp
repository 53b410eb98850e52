#include "rewrite/emit.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "rewrite/build.h"
#include "rewrite/edit.h"
#include "rewrite/operation.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::StmtKind;

namespace {

ExprPtr tile(const Term& term) { return nki::clone(*term.tile); }

/// Elementwise nanoseconds per element of a partition, from the cost table of the machine facts
/// (section 7): ScalarE 1/1.4, VectorE two-operand 2/1.12, reciprocal 2.6/1.12.
constexpr double kScalarNs = 0.71;
constexpr double kPairNs = 1.79;
constexpr double kReciprocalNs = 2.32;
/// Fixed part of an instruction in elements.
constexpr double kOverhead = 64;

double term_cost(const Kernel& kernel, const Term& term) {
    if (term.kind != Term::Kind::kOperation) return 0;
    double inner = 0;
    for (const Term& arg : term.args) inner += term_cost(kernel, arg);
    if (term.op == "reciprocal") return inner + kReciprocalNs;
    bool scalar = term.args.size() < 2;
    for (const Term& arg : term.args) {
        if (arg.is_number()) scalar = true;
        if (!arg.is_tile()) continue;
        const auto extents = kernel.shape(*arg.tile);
        if (extents && extents->back() == 1) scalar = true;
    }
    return inner + (scalar ? kScalarNs : kPairNs);
}

/// The shortest decimal that is the same float32: products of constants pick up noise digits.
ExprPtr factor_text(double value) {
    for (int digits = 1; digits <= 9; ++digits) {
        char text[40];
        std::snprintf(text, sizeof text, "%.*g", digits, value);
        const double rounded = std::strtod(text, nullptr);
        if (static_cast<float>(rounded) == static_cast<float>(value)) return make_real(rounded);
    }
    return make_real(value);
}

}  // namespace

ExprPtr emit_activation(Kernel& kernel, const std::string& function, const Term& data, double scale,
                        ExprPtr bias) {
    ExprPtr call = make_call(kernel.api("nisa.activation"), {});
    add_keyword(*call, "op", kernel.api("nl." + function));
    add_keyword(*call, "data", tile(data));
    if (bias) add_keyword(*call, "bias", std::move(bias));
    if (scale != 1) add_keyword(*call, "scale", factor_text(scale));
    return call;
}

ExprPtr emit_affine(Kernel& kernel, const Term& data, double factor, double constant) {
    ExprPtr call = make_call(kernel.api("nisa.tensor_scalar"), {});
    add_keyword(*call, "data", tile(data));
    const bool multiply = factor != 1;
    add_keyword(*call, "op0", kernel.api(multiply ? "nl.multiply" : "nl.add"));
    add_keyword(*call, "operand0", factor_text(multiply ? factor : constant));
    if (multiply && constant != 0) {
        add_keyword(*call, "op1", kernel.api("nl.add"));
        add_keyword(*call, "operand1", factor_text(constant));
    }
    return call;
}

ExprPtr emit_scaled_pair(Kernel& kernel, const Term& data, double factor, const std::string& op,
                         const Term& other) {
    ExprPtr call = make_call(kernel.api("nisa.scalar_tensor_tensor"), {});
    add_keyword(*call, "data", tile(data));
    add_keyword(*call, "op0", kernel.api("nl.multiply"));
    add_keyword(*call, "operand0", factor_text(factor));
    add_keyword(*call, "op1", kernel.api("nl." + op));
    add_keyword(*call, "operand1", tile(other));
    return call;
}

ExprPtr emit_pair(Kernel& kernel, const Term& a, const Term& b, const std::string& op) {
    ExprPtr call = make_call(kernel.api("nisa.tensor_tensor"), {});
    call->operands.push_back(tile(a));
    call->operands.push_back(tile(b));
    call->operands.push_back(kernel.api("nl." + op));
    return call;
}

void replace_value(Kernel& kernel, const Elementwise& root, Replacement replacement) {
    nki::Stmt& stmt = *root.place.stmt;
    auto inherit = [&](Expr& call) {
        if (stmt.value->kind != ExprKind::kCall) return;
        for (const char* keyword : {"mask", "dtype"}) {
            const Expr* value = argument(*stmt.value, 100, keyword);
            if (!is_none(value)) add_keyword(call, keyword, nki::clone(*value));
        }
    };
    inherit(*replacement.value);
    nki::Block& block = *root.place.block;
    const std::size_t index = root.place.index;
    stmt.value = std::move(replacement.value);
    insert_before(block, index, std::move(replacement.before));
    kernel.refresh();
}

double elementwise_cost(Kernel& kernel) {
    double sum = 0;
    for (const Place& place : places(kernel.body())) {
        double trips = 1;
        for (const nki::Stmt* loop : place.loops) {
            const auto range = kernel.loop_range(*loop);
            trips *= range ? static_cast<double>(range->trips) : 1;
        }
        const nki::Stmt& stmt = *place.stmt;
        if (stmt.kind != StmtKind::kAssign || !stmt.value || stmt.targets.size() != 1) continue;
        const auto extents = kernel.shape(*stmt.targets[0]);
        const double n = extents ? static_cast<double>(extents->back()) : 128;
        const auto found = read_elementwise(kernel, place);
        const std::string path = kernel.callee(*stmt.value);
        double cost = 0;
        if (found && path == "nisa.scalar_tensor_tensor") {
            cost = kPairNs;
        } else if (found && path.rfind("nisa.", 0) == 0 && path != "nisa.reciprocal" &&
                   path != "nisa.tensor_tensor") {
            cost = kScalarNs;  // one instruction, however many steps
        } else if (found) {
            cost = term_cost(kernel, found->term);
        } else if (call_kind(path) == CallKind::kFill) {
            cost = kScalarNs;
        }
        sum += trips * cost * (n + kOverhead);
    }
    return sum;
}

}  // namespace accelopt::rewrite
