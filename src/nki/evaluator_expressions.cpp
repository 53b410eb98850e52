#include <fmt/format.h>

#include "nki/builtins.h"
#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/nesting.h"

namespace accelopt::nki::interp {

Value Evaluator::evaluate(const Node& node) {
    tick();
    switch (node.kind) {
        case NodeKind::kConstant:
            return node.constant;
        case NodeKind::kLocal: {
            const Value& value = frame_->environment->slots[node.slot];
            if (!value.is(Kind::kUnbound)) return value;
            return load_name(node);
        }
        default:
            break;
    }
    const NestingGuard guard(nesting_);
    return evaluate_here(node);
}

Value Evaluator::evaluate_here(const Node& node) {
    switch (node.kind) {
        case NodeKind::kConstant:
            return node.constant;
        case NodeKind::kLocal:
        case NodeKind::kOuter:
        case NodeKind::kGlobal:
        case NodeKind::kBuiltinName:
        case NodeKind::kUndefinedName:
            return load_name(node);
        case NodeKind::kAttribute:
            return evaluate_attribute(node);
        case NodeKind::kSubscript:
            return evaluate_subscript(node);
        case NodeKind::kSlice:
            return evaluate_slice(node);
        case NodeKind::kCall:
            return evaluate_call(node);
        case NodeKind::kBinary: {
            const Value left = evaluate(*node.kids[0]);
            const Value right = evaluate(*node.kids[1]);
            line_ = node.line;
            column_ = node.column;
            site_ = node.id;
            return binary(node.op, left, right);
        }
        case NodeKind::kUnary: {
            const Value operand = evaluate(*node.kids[0]);
            line_ = node.line;
            column_ = node.column;
            site_ = node.id;
            return unary(node.op, operand);
        }
        case NodeKind::kAnd:
        case NodeKind::kOr: {
            const bool stop_at = node.kind == NodeKind::kOr;
            Value value;
            std::uint8_t marks = 0;
            for (std::size_t k = 0; k < node.kids.size(); ++k) {
                const Value operand = evaluate(*node.kids[k]);
                // Comparisons of indices joined by `and` are a mask, as by &.
                const bool joins = !stop_at && value.is(Kind::kMask) && operand.is(Kind::kMask);
                value = joins ? binary(Op::kBitAnd, value, operand) : operand;
                marks |= value.marks();
                if (k + 1 == node.kids.size() || (!stop_at && value.is(Kind::kMask))) continue;
                if (truth(value) == stop_at) break;
            }
            if (marks != 0 && value.is_integer()) value.set_marks(marks);
            return value;
        }
        case NodeKind::kCompare:
            return evaluate_compare(node);
        case NodeKind::kConditional:
            return evaluate(truth(evaluate(*node.kids[0])) ? *node.kids[1] : *node.kids[2]);
        case NodeKind::kTuple:
        case NodeKind::kList:
            return evaluate_sequence(node);
        case NodeKind::kDict:
        case NodeKind::kSet:
            return evaluate_mapping(node);
        case NodeKind::kLambda:
            return evaluate_lambda(node);
        case NodeKind::kComprehension:
            return evaluate_comprehension(node);
        case NodeKind::kFormatted:
            return evaluate_formatted(node);
        case NodeKind::kNamed: {
            Value value = kept(evaluate(*node.kids[1]));
            assign(*node.kids[0], value);
            return value;
        }
        case NodeKind::kStarred:
        case NodeKind::kFormattedValue:
        case NodeKind::kUnsupported:
            break;
    }
    unsupported("python_feature", fmt::format("'{}' is not supported", node.text))
        .at(node.line, node.column)
        .raise();
}

Value& Evaluator::slot(const Node& node) {
    if (node.kind == NodeKind::kGlobal) return globals_->slots[node.slot];
    Environment* environment = frame_->environment;
    for (int k = 0; k < node.hops; ++k) environment = environment->outer.get();
    return environment->slots[node.slot];
}

Value Evaluator::load_name(const Node& node) {
    if (node.kind == NodeKind::kBuiltinName) return Value::token(Kind::kBuiltin, node.slot);
    if (node.kind != NodeKind::kUndefinedName) {
        const Value& value = slot(node);
        if (!value.is(Kind::kUnbound)) return value;
        const int builtin = node.kind == NodeKind::kGlobal ? builtin_id(name(node.name)) : -1;
        if (builtin >= 0) return Value::token(Kind::kBuiltin, builtin);
    }
    rejected("undefined_name", fmt::format("name '{}' is not defined", name(node.name)))
        .at(node.line, node.column)
        .raise();
}

Value Evaluator::evaluate_attribute(const Node& node) {
    const Value base = evaluate(*node.kids[0]);
    if (base.is(Kind::kModule)) {
        if (node.cached_key == base.integer()) return node.cached_value;
        line_ = node.line;
        column_ = node.column;
        node.cached_value = attribute(base, node.name);
        node.cached_key = base.integer();
        return node.cached_value;
    }
    line_ = node.line;
    column_ = node.column;
    return attribute(base, node.name);
}

Value Evaluator::evaluate_subscript(const Node& node) {
    if (node.pure_index) {
        // nl.arange(128)[:, None]: the same value every time, as long as nl is what it was.
        const Value callee = evaluate(*node.kids[0]->kids[0]);
        if (callee.is(Kind::kApi) && callee.integer() == arange_api_ &&
            !node.cached_value.is(Kind::kUnbound))
            return node.cached_value;
    }
    const Value base = evaluate(*node.kids[0]);
    const Value index = evaluate(*node.kids[1]);
    line_ = node.line;
    column_ = node.column;
    site_ = node.id;
    Value result = subscript(base, index);
    if (node.pure_index && result.is(Kind::kAffine)) node.cached_value = result;
    return result;
}

Value Evaluator::evaluate_slice(const Node& node) {
    const Ref<Slice> slice = heap_.make<Slice>();
    Value* const parts[] = {&slice->start, &slice->stop, &slice->step};
    for (int k = 0; k < 3; ++k)
        *parts[k] = node.kids[k] != nullptr ? evaluate(*node.kids[k]) : Value::none();
    return Value::object(Kind::kSlice, slice);
}

Value Evaluator::evaluate_compare(const Node& node) {
    Value left = evaluate(*node.kids[0]);
    Value result;
    for (std::size_t k = 0; k < node.comparators.size(); ++k) {
        const Value right = evaluate(*node.kids[k + 1]);
        line_ = node.line;
        column_ = node.column;
        site_ = node.id;
        result = compare(node.comparators[k], left, right);
        if (k + 1 < node.comparators.size() && !truth(result)) return result;
        left = right;
    }
    return result;
}

Value Evaluator::evaluate_sequence(const Node& node) {
    const Ref<Sequence> sequence = heap_.make<Sequence>();
    for (const Node* kid : node.kids) {
        if (kid->kind == NodeKind::kStarred) {
            for (Value& item : items_of(evaluate(*kid->kids[0]))) append(*sequence, item);
        } else {
            append(*sequence, kept(evaluate(*kid)));
        }
    }
    if (node.kind == NodeKind::kTuple) return Value::object(Kind::kTuple, sequence);
    sequence->module_level = !in_kernel_;
    return Value::object(Kind::kList, sequence);
}

Value Evaluator::evaluate_mapping(const Node& node) {
    const Ref<Mapping> mapping = heap_.make<Mapping>();
    mapping->module_level = !in_kernel_;
    const bool dict = node.kind == NodeKind::kDict;
    Value result = Value::object(dict ? Kind::kDict : Kind::kSet, mapping);
    for (std::size_t k = 0; k < node.kids.size(); k += dict ? 2 : 1) {
        if (dict && node.kids[k] == nullptr) {
            const Value other = evaluate(*node.kids[k + 1]);
            if (!other.is(Kind::kDict)) rejected("type_error", "** needs a dict").raise();
            for (const auto& [key, value] : other.as<Mapping>().entries)
                set_entry(*mapping, key, value);
            continue;
        }
        Value key = evaluate(*node.kids[k]);
        set_entry(*mapping, std::move(key),
                  dict ? kept(evaluate(*node.kids[k + 1])) : Value::none());
    }
    return result;
}

Value Evaluator::evaluate_lambda(const Node& node) {
    const Ref<Function> function = heap_.make<Function>();
    function->code = node.function;
    for (const Node* value : node.defaults)
        function->defaults.push_back(value != nullptr ? evaluate(*value) : Value());
    function->outer = Ref<Environment>(frame_->environment);
    return Value::object(Kind::kFunction, function);
}

Value Evaluator::evaluate_formatted(const Node& node) {
    std::string text;
    for (const Node* kid : node.kids) {
        if (kid->kind == NodeKind::kFormattedValue) {
            const Value value = evaluate(*kid->kids[0]);
            const std::string specification = kid->kids.size() > 1 && kid->kids[1] != nullptr
                                                  ? str(evaluate(*kid->kids[1]))
                                                  : kid->text;
            text += kid->collection == 'r' ? repr(value) : format_value(value, specification);
        } else {
            text += str(evaluate(*kid));
        }
    }
    return string(std::move(text));
}

Value Evaluator::evaluate_comprehension(const Node& node) {
    if (node.collection == 's' || node.collection == 'd') {
        const Ref<Mapping> out = heap_.make<Mapping>();
        out->module_level = !in_kernel_;
        run_clauses(node, 0, *out);
        return Value::object(node.collection == 's' ? Kind::kSet : Kind::kDict, out);
    }
    const Ref<Sequence> out = heap_.make<Sequence>();
    out->module_level = !in_kernel_;
    run_clauses(node, 0, *out);
    return Value::object(Kind::kList, out);
}

void Evaluator::run_clauses(const Node& node, std::size_t clause, Container& out) {
    if (clause == node.clauses.size()) {
        collect(node, out);
        return;
    }
    const NestingGuard guard(nesting_);
    const Node::Clause& here = node.clauses[clause];
    for (const Value& item : items_of(evaluate(*here.iterable))) {
        tick();
        assign(*here.target, item);
        bool keep = true;
        for (const Node* condition : here.conditions)
            if (keep && !truth(evaluate(*condition))) keep = false;
        if (keep) run_clauses(node, clause + 1, out);
    }
}

void Evaluator::collect(const Node& node, Container& out) {
    if (node.collection == 's' || node.collection == 'd') {
        Value key = evaluate(*node.kids[0]);
        Value value = node.collection == 'd' ? kept(evaluate(*node.kids[1])) : Value::none();
        set_entry(static_cast<Mapping&>(out), std::move(key), std::move(value));
        return;
    }
    append(static_cast<Sequence&>(out), kept(evaluate(*node.kids[0])));
}

}  // namespace accelopt::nki::interp
