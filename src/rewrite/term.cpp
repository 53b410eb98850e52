#include "rewrite/term.h"

#include "rewrite/index.h"
#include "rewrite/operation.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::Stmt;
using nki::StmtKind;

Term number_term(double value) {
    Term term;
    term.number = value;
    return term;
}

Term tile_term(const Kernel& kernel, const Expr& tile) {
    Term term;
    term.kind = Term::Kind::kTile;
    term.tile = &tile;
    term.key = canonical_key(kernel, tile);
    return term;
}

Term operation_term(const std::string& op, std::vector<Term> args) {
    Term term;
    term.kind = Term::Kind::kOperation;
    term.op = op;
    term.args = std::move(args);
    return term;
}

namespace {

/// Operator argument: nl.add, np.add -> "add".
std::string operator_name(const Kernel& kernel, const Expr* expr) {
    if (is_none(expr)) return "";
    const std::string path = kernel.path(*expr);
    if (path.rfind("nl.", 0) == 0 || path.rfind("np.", 0) == 0) return path.substr(3);
    return "";
}

std::optional<bool> flag(const Expr* expr) {
    if (is_none(expr)) return false;
    if (expr->kind != ExprKind::kConstant) return std::nullopt;
    const bool* value = std::get_if<bool>(&expr->constant);
    return value ? std::optional<bool>(*value) : std::nullopt;
}

class Reader {
  public:
    explicit Reader(const Kernel& kernel) : kernel_(kernel) {}

    std::optional<Term> read(const Expr& expr, bool nested) {
        if (const auto value = kernel_.real(expr)) return number_term(*value);
        switch (expr.kind) {
            case ExprKind::kName:
            case ExprKind::kSubscript: {
                if (base_name(expr).empty()) return std::nullopt;
                if (const auto value = kernel_.fill_value(expr)) return number_term(*value);
                const Binding* bound = kernel_.binding(base_name(expr));
                // Scalar arguments and loop variables are no tiles.
                if (!bound || bound->loop_variable || (bound->parameter && !nested)) {
                    return std::nullopt;
                }
                return tile_term(kernel_, expr);
            }
            case ExprKind::kBinary:
                return binary(expr);
            case ExprKind::kUnary: {
                if (expr.text != "-") return std::nullopt;
                auto inner = read(*expr.operands[0], true);
                if (!inner) return std::nullopt;
                return operation_term("multiply", {*inner, number_term(-1)});
            }
            case ExprKind::kCall:
                return call(expr);
            default:
                return std::nullopt;
        }
    }

  private:
    std::optional<Term> binary(const Expr& expr) {
        static const std::map<std::string, std::string> kOperators = {
            {"+", "add"}, {"-", "subtract"}, {"*", "multiply"}, {"/", "divide"}};
        const auto op = kOperators.find(expr.text);
        if (op == kOperators.end()) return std::nullopt;
        return pair(op->second, read(*expr.operands[0], true), read(*expr.operands[1], true));
    }

    static std::optional<Term> pair(const std::string& op, std::optional<Term> a,
                                    std::optional<Term> b) {
        if (!a || !b || op.empty()) return std::nullopt;
        return operation_term(op, {*a, *b});
    }

    std::optional<Term> call(const Expr& call) {
        const std::string path = kernel_.callee(call);
        if (path == "nisa.activation") return activation(call);
        if (path == "nisa.tensor_scalar") return tensor_scalar(call);
        if (path == "nisa.tensor_tensor") {
            return pair(operator_name(kernel_, argument(call, 2, "op")),
                        operand(argument(call, 0, "data1")), operand(argument(call, 1, "data2")));
        }
        if (path == "nisa.scalar_tensor_tensor") {
            // Keyword order of the public API: data, op0, operand0, op1, operand1.
            const auto reverse0 = flag(argument(call, 100, "reverse0"));
            const auto reverse1 = flag(argument(call, 100, "reverse1"));
            if (!reverse0 || !reverse1) return std::nullopt;
            auto inner = ordered(operator_name(kernel_, argument(call, 1, "op0")),
                                 operand(argument(call, 0, "data")),
                                 operand(argument(call, 2, "operand0")), *reverse0);
            return ordered(operator_name(kernel_, argument(call, 3, "op1")), inner,
                           operand(argument(call, 4, "operand1")), *reverse1);
        }
        if (path == "nisa.reciprocal") return unary("reciprocal", argument(call, 0, "data"));
        if (path.rfind("nl.", 0) != 0 || call_kind(path) != CallKind::kElementwise) {
            return std::nullopt;
        }
        const std::string op = path.substr(3);
        if (op == "copy" || op == "where") return std::nullopt;
        static const std::set<std::string> kPairs = {"add",     "subtract", "multiply", "divide",
                                                     "maximum", "minimum",  "power"};
        if (kPairs.count(op) > 0) {
            return pair(op, operand(argument(call, 0, "x")), operand(argument(call, 1, "y")));
        }
        if (op == "negative") {
            auto inner = operand(argument(call, 0, "x"));
            return pair("multiply", inner, number_term(-1));
        }
        if (argument(call, 1, "y")) return std::nullopt;
        return unary(op, argument(call, 0, "x"));
    }

    std::optional<Term> operand(const Expr* expr) {
        return expr ? read(*expr, true) : std::nullopt;
    }

    std::optional<Term> unary(const std::string& op, const Expr* data) {
        auto inner = operand(data);
        if (!inner) return std::nullopt;
        return operation_term(op, {*inner});
    }

    static std::optional<Term> ordered(const std::string& op, std::optional<Term> a,
                                       std::optional<Term> b, bool reverse) {
        return reverse ? pair(op, std::move(b), std::move(a))
                       : pair(op, std::move(a), std::move(b));
    }

    std::optional<Term> activation(const Expr& call) {
        const std::string op = operator_name(kernel_, argument(call, 0, "op"));
        auto data = operand(argument(call, 1, "data"));
        if (op.empty() || !data || op == "copy") return std::nullopt;
        for (const char* keyword : {"reduce_op", "reduce_res", "reduce_cmd"}) {
            const Expr* reduce = argument(call, 100, keyword);
            if (reduce && std::string(keyword) != "reduce_cmd" && !is_none(reduce)) {
                return std::nullopt;
            }
        }
        const Expr* scale = argument(call, 100, "scale");
        const Expr* bias = argument(call, 100, "bias");
        Term inner = *data;
        if (!is_none(scale)) {
            auto factor = read(*scale, true);
            if (!factor) return std::nullopt;
            if (!factor->is_number() || factor->number != 1) {
                inner = operation_term("multiply", {inner, *factor});
            }
        }
        if (!is_none(bias)) {
            auto shift = read(*bias, true);
            if (!shift) return std::nullopt;
            if (!shift->is_number() || shift->number != 0) {
                inner = operation_term("add", {inner, *shift});
            }
        }
        return operation_term(op, {inner});
    }

    std::optional<Term> tensor_scalar(const Expr& call) {
        const auto reverse0 = flag(argument(call, 3, "reverse0"));
        const auto reverse1 = flag(argument(call, 6, "reverse1"));
        if (!reverse0 || !reverse1) return std::nullopt;
        auto inner = ordered(operator_name(kernel_, argument(call, 1, "op0")),
                             operand(argument(call, 0, "data")),
                             operand(argument(call, 2, "operand0")), *reverse0);
        const Expr* op1 = argument(call, 4, "op1");
        if (!inner || is_none(op1)) return inner;
        return ordered(operator_name(kernel_, op1), inner, operand(argument(call, 5, "operand1")),
                       *reverse1);
    }

    const Kernel& kernel_;
};

/// float32 under its several spellings.
std::string canonical_dtype(const Kernel& kernel, const Expr* expr) {
    if (is_none(expr)) return "";
    const std::string path = kernel.path(*expr);
    if (path == "nl.float32" || path == "np.float32") return "float32";
    return path.empty() ? "?" : path;
}

bool narrows(const std::string& dtype) {
    for (const char* name : {"bfloat16", "float16", "tfloat32", "float8", "int", "bool"}) {
        if (dtype.find(name) != std::string::npos) return true;
    }
    return false;
}

}  // namespace

std::optional<Term> read_term(const Kernel& kernel, const Expr& value) {
    return Reader(kernel).read(value, false);
}

std::optional<Elementwise> read_elementwise(const Kernel& kernel, const Place& place) {
    const Stmt& stmt = *place.stmt;
    if (stmt.kind != StmtKind::kAssign || stmt.targets.size() != 1 || place.guarded) {
        return std::nullopt;
    }
    const Expr& target = *stmt.targets[0];
    if (target.kind != ExprKind::kName && target.kind != ExprKind::kSubscript) return std::nullopt;
    if (stmt.value->kind != ExprKind::kCall && stmt.value->kind != ExprKind::kBinary) {
        return std::nullopt;
    }
    if (kernel.number(*stmt.value) || !affine(kernel, *stmt.value).iotas.empty()) {
        return std::nullopt;
    }
    auto term = read_term(kernel, *stmt.value);
    if (!term || term->kind != Term::Kind::kOperation) return std::nullopt;
    // Arithmetic on plain numbers and scalar arguments computes no tile.
    if (memories_of(kernel, *term).empty()) return std::nullopt;
    Elementwise out;
    out.place = place;
    out.target = &target;
    out.target_key = canonical_key(kernel, target);
    out.term = std::move(*term);
    if (stmt.value->kind == ExprKind::kCall) {
        const Expr* mask = argument(*stmt.value, 100, "mask");
        out.mask = is_none(mask) ? "" : mask_key(kernel, *mask);
        out.dtype = canonical_dtype(kernel, argument(*stmt.value, 100, "dtype"));
        const Expr* engine = argument(*stmt.value, 100, "engine");
        if (!is_none(engine)) out.engine = kernel.path(*engine);
        if (out.engine == "nisa.unknown_engine") out.engine.clear();
    }
    // The array that receives the value may round it.
    const std::string base = base_name(target);
    if (const Expr* made = kernel.allocation(base)) {
        const std::string dtype = canonical_dtype(kernel, argument(*made, 1, "dtype"));
        if (narrows(dtype)) out.dtype = dtype;
    }
    return out;
}

std::set<std::string> memories_of(const Kernel& kernel, const Term& term) {
    std::set<std::string> out;
    if (term.is_tile()) out.insert(kernel.memory(base_name(*term.tile)));
    for (const Term& arg : term.args) out.merge(memories_of(kernel, arg));
    return out;
}

Definitions::Definitions(Kernel& kernel) : kernel_(kernel) {
    for (const Place& place : places(kernel.body())) {
        auto found = read_elementwise(kernel, place);
        if (!found) continue;
        by_stmt_[place.stmt] = all_.size();
        all_.push_back(std::move(*found));
    }
}

const Elementwise* Definitions::at(const Stmt& stmt) const {
    const auto entry = by_stmt_.find(&stmt);
    return entry == by_stmt_.end() ? nullptr : &all_[entry->second];
}

const Effects& Definitions::effects(const Stmt& stmt) const {
    const auto entry = effects_.find(&stmt);
    if (entry != effects_.end()) return entry->second;
    return effects_.emplace(&stmt, kernel_.effects(stmt)).first->second;
}

bool Definitions::unchanged(const std::set<std::string>& memories, const nki::Block& block,
                            std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i < to; ++i) {
        const Effects& change = effects(*block[i]);
        if (change.unknown) return false;
        for (const std::string& memory : memories) {
            if (change.writes.count(memory) > 0) return false;
        }
    }
    return true;
}

const Elementwise* Definitions::reaching(const Term& tile, const Place& use,
                                         const std::string& mask) const {
    if (!tile.is_tile()) return nullptr;
    const std::string memory = kernel_.memory(base_name(*tile.tile));
    for (std::size_t i = use.index; i-- > 0;) {
        const Stmt& stmt = *(*use.block)[i];
        const Elementwise* found = at(stmt);
        if (found && found->target_key == tile.key) {
            const bool same = found->mask == mask && !narrows(found->dtype);
            if (!same) return nullptr;
            // A statement that updates its own operand cannot be computed again.
            const auto operands = memories_of(kernel_, found->term);
            if (operands.count(memory) > 0) return nullptr;
            return unchanged(operands, *use.block, i + 1, use.index) ? found : nullptr;
        }
        const Effects& change = effects(stmt);
        if (change.unknown || change.writes.count(memory) > 0) return nullptr;
    }
    return nullptr;
}

}  // namespace accelopt::rewrite
