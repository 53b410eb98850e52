#include "nki/replay_analysis.h"

#include <algorithm>
#include <unordered_map>

namespace accelopt::nki::interp {
namespace {

/// How a value may depend on the variable of the loop.
enum class Taint { kNone, kAffine, kMask, kOther };

class Analysis {
  public:
    Analysis(const Step& loop, const Names& names) : loop_(loop), names_(names) {}

    ReplayPlan run() {
        ReplayPlan plan;
        if (loop_.targets.size() != 1 || loop_.targets[0]->kind != NodeKind::kLocal ||
            !loop_.otherwise.empty())
            return plan;
        bind(*loop_.targets[0], Taint::kAffine);
        collect(loop_.body);
        block(loop_.body);
        plan.possible = !refused_;
        plan.masked = masked_;
        plan.updated = std::move(updated_);
        return plan;
    }

  private:
    void refuse() { refused_ = true; }

    /// The slots that the body assigns.
    void collect(const std::vector<Step*>& steps) {
        for (const Step* step : steps) {
            const bool binds = step->kind == StmtKind::kAssign || step->kind == StmtKind::kFor;
            if (binds)
                for (const Node* target : step->targets)
                    if (target->kind == NodeKind::kLocal) assigned_.push_back(target->slot);
            collect(step->body);
            collect(step->otherwise);
        }
    }

    bool assigned_in_body(int slot) const {
        return std::find(assigned_.begin(), assigned_.end(), slot) != assigned_.end();
    }

    void bind(const Node& target, Taint taint) {
        if (target.kind != NodeKind::kLocal || taint == Taint::kOther) return refuse();
        Taint& known = taints_.try_emplace(target.slot, Taint::kNone).first->second;
        if (taint == Taint::kNone) return;
        if (known != Taint::kNone && known != taint) return refuse();
        known = taint;
    }

    void block(const std::vector<Step*>& steps) {
        for (const Step* step : steps) {
            if (refused_) return;
            statement(*step);
        }
    }

    void statement(const Step& step) {
        switch (step.kind) {
            case StmtKind::kPass:
                return;
            case StmtKind::kExpression:
                clean(*step.value);
                return;
            case StmtKind::kAssign: {
                if (step.targets.size() != 1) return refuse();
                const Taint value = taint(*step.value);
                if (step.targets[0]->kind == NodeKind::kLocal) return bind(*step.targets[0], value);
                if (value != Taint::kNone) return refuse();
                return place(*step.targets[0]);
            }
            case StmtKind::kAugAssign:
                return augmented(step);
            case StmtKind::kIf:
                clean(*step.value);
                block(step.body);
                block(step.otherwise);
                return;
            case StmtKind::kFor: {
                clean(*step.value);
                if (step.targets.size() != 1 || !step.otherwise.empty()) return refuse();
                bind(*step.targets[0], Taint::kNone);
                // Once more with what one round assigns: values may be carried around this loop.
                block(step.body);
                block(step.body);
                return;
            }
            default:
                refuse();
        }
    }

    void augmented(const Step& step) {
        const Node& target = *step.targets[0];
        const Taint value = taint(*step.value);
        if (target.kind == NodeKind::kSubscript) {
            if (value != Taint::kNone) return refuse();
            return place(target);
        }
        if (target.kind != NodeKind::kLocal) return refuse();
        const auto known = taints_.find(target.slot);
        if (known != taints_.end()) {
            const bool sum = step.op == Op::kAdd || step.op == Op::kSubtract;
            if ((value != Taint::kNone || known->second != Taint::kNone) && !sum) return refuse();
            return bind(target, value);
        }
        if (value != Taint::kNone || assigned_in_body(target.slot)) return refuse();
        updated_.push_back(target.slot);
    }

    /// A subscript that is assigned to: of a tile.
    void place(const Node& target) {
        if (target.kind != NodeKind::kSubscript) return refuse();
        clean(*target.kids[0]);
        if (index(*target.kids[1]) == Taint::kOther) refuse();
        target.replay_needs_tile = true;
    }

    void clean(const Node& node) {
        if (taint(node) != Taint::kNone) refuse();
    }

    /// Of an index: affine items and bounds may stand side by side.
    Taint index(const Node& node) {
        if (node.kind != NodeKind::kTuple && node.kind != NodeKind::kSlice) return taint(node);
        Taint all = Taint::kNone;
        for (std::size_t k = 0; k < node.kids.size(); ++k) {
            if (node.kids[k] == nullptr) continue;
            const Taint one = index(*node.kids[k]);
            if (one == Taint::kOther || one == Taint::kMask) return Taint::kOther;
            const bool step = node.kind == NodeKind::kSlice && k == 2;
            if (one == Taint::kAffine && step) return Taint::kOther;
            if (one == Taint::kAffine) all = one;
        }
        return all;
    }

    Taint taint(const Node& node) {
        switch (node.kind) {
            case NodeKind::kConstant:
            case NodeKind::kGlobal:
            case NodeKind::kBuiltinName:
                return Taint::kNone;
            case NodeKind::kLocal: {
                const auto known = taints_.find(node.slot);
                if (known != taints_.end()) return known->second;
                // The value of the iteration before.
                return assigned_in_body(node.slot) ? Taint::kOther : Taint::kNone;
            }
            case NodeKind::kOuter:
                return Taint::kNone;
            case NodeKind::kAttribute:
                return taint(*node.kids[0]) == Taint::kNone ? Taint::kNone : Taint::kOther;
            case NodeKind::kSubscript:
                return subscript(node);
            case NodeKind::kCall:
                return call(node);
            case NodeKind::kBinary:
                return binary(node);
            case NodeKind::kUnary: {
                const Taint operand = taint(*node.kids[0]);
                const bool sign = node.op == Op::kNegative || node.op == Op::kPositive;
                return operand == Taint::kNone || (sign && operand == Taint::kAffine)
                           ? operand
                           : Taint::kOther;
            }
            case NodeKind::kTuple:
            case NodeKind::kList:
            case NodeKind::kSlice:
            case NodeKind::kAnd:
            case NodeKind::kOr:
            case NodeKind::kConditional:
                for (const Node* kid : node.kids)
                    if (kid != nullptr && taint(*kid) != Taint::kNone) return Taint::kOther;
                return Taint::kNone;
            case NodeKind::kCompare:
                return comparison(node);
            case NodeKind::kUndefinedName:
            case NodeKind::kDict:
            case NodeKind::kSet:
            case NodeKind::kStarred:
            case NodeKind::kLambda:
            case NodeKind::kComprehension:
            case NodeKind::kFormatted:
            case NodeKind::kFormattedValue:
            case NodeKind::kNamed:
            case NodeKind::kUnsupported:
                break;
        }
        return Taint::kOther;
    }

    Taint subscript(const Node& node) {
        const Taint base = taint(*node.kids[0]);
        if (base == Taint::kOther || base == Taint::kMask) return Taint::kOther;
        const Taint at = index(*node.kids[1]);
        if (at == Taint::kOther || (at == Taint::kAffine && base == Taint::kAffine))
            return Taint::kOther;
        if (at == Taint::kAffine) node.replay_needs_tile = true;
        return base;
    }

    Taint call(const Node& node) {
        if (node.spread || taint(*node.kids[0]) != Taint::kNone) return Taint::kOther;
        // nl.ds(start, size) is a slice.
        const Node& callee = *node.kids[0];
        const bool slice =
            callee.kind == NodeKind::kAttribute && node.keywords.empty() && node.kids.size() == 3;
        Taint result = Taint::kNone;
        const std::size_t positional = node.kids.size() - node.keywords.size();
        for (std::size_t k = 1; k < node.kids.size(); ++k) {
            // loop_reduce asks which loops are at their first iteration; replay never repeats one.
            if (k >= positional && names_.text(node.keywords[k - positional]) == "loop_indices" &&
                names_only(*node.kids[k]))
                continue;
            const Taint argument = taint(*node.kids[k]);
            if (argument == Taint::kNone) continue;
            if (argument == Taint::kMask && k >= positional &&
                names_.text(node.keywords[k - positional]) == "mask") {
                node.replay_masked = masked_ = true;
                continue;
            }
            if (argument != Taint::kAffine || !slice || k != 1) return Taint::kOther;
            result = argument;
        }
        if (result != Taint::kNone) node.replay_needs_slice = true;
        return result;
    }

    static bool names_only(const Node& node) {
        if (node.kind == NodeKind::kLocal) return true;
        return (node.kind == NodeKind::kList || node.kind == NodeKind::kTuple) &&
               std::all_of(node.kids.begin(), node.kids.end(),
                           [](const Node* kid) { return kid->kind == NodeKind::kLocal; });
    }

    Taint binary(const Node& node) {
        const Taint left = taint(*node.kids[0]);
        const Taint right = taint(*node.kids[1]);
        if (left == Taint::kOther || right == Taint::kOther) return Taint::kOther;
        if (left == Taint::kNone && right == Taint::kNone) return Taint::kNone;
        if (left == Taint::kMask || right == Taint::kMask)
            return node.op == Op::kBitAnd && left != Taint::kAffine && right != Taint::kAffine
                       ? Taint::kMask
                       : Taint::kOther;
        // An operand that does not depend on the variable must turn out to be an index, not a tile.
        node.replay_needs_index = true;
        switch (node.op) {
            case Op::kAdd:
            case Op::kSubtract:
                return Taint::kAffine;
            case Op::kMultiply:
                return left == Taint::kNone || right == Taint::kNone ? Taint::kAffine
                                                                     : Taint::kOther;
            default:
                return Taint::kOther;
        }
    }

    /// What an inequality of affine values leaves out shrinks or grows with the variable.
    Taint comparison(const Node& node) {
        bool affine = false;
        for (const Node* kid : node.kids) {
            const Taint one = taint(*kid);
            if (one == Taint::kMask || one == Taint::kOther) return Taint::kOther;
            affine = affine || one == Taint::kAffine;
        }
        if (!affine) return Taint::kNone;
        const bool ordered =
            std::all_of(node.comparators.begin(), node.comparators.end(),
                        [](Op op) { return op >= Op::kLess && op <= Op::kGreaterEqual; });
        return ordered && node.comparators.size() == 1 ? Taint::kMask : Taint::kOther;
    }

    const Step& loop_;
    const Names& names_;
    std::unordered_map<int, Taint> taints_;
    std::vector<int> assigned_;
    std::vector<int> updated_;
    bool refused_ = false;
    bool masked_ = false;
};

}  // namespace

ReplayPlan analyse_replay(const Step& loop, const Names& names) {
    return Analysis(loop, names).run();
}

}  // namespace accelopt::nki::interp
