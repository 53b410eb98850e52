#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/nesting.h"
#include "nki/replay.h"

namespace accelopt::nki::interp {

Evaluator::Flow Evaluator::execute(const std::vector<Step*>& block) {
    for (const Step* step : block) {
        const Flow flow = execute(*step);
        if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Step& step) {
    tick();
    const NestingGuard guard(nesting_);
    line_ = step.line;
    column_ = step.column;
    switch (step.kind) {
        case StmtKind::kExpression: {
            const Value value = evaluate(*step.value);
            if (value.is(Kind::kPending)) materialise(value);
            return Flow::kNext;
        }
        case StmtKind::kAssign: {
            Value value = evaluate(*step.value);
            for (const Node* target : step.targets) {
                if (step.targets.size() > 1) value = kept(std::move(value));
                assign(*target, value);
            }
            return Flow::kNext;
        }
        case StmtKind::kAugAssign:
            execute_augmented(step);
            return Flow::kNext;
        case StmtKind::kAnnAssign:
            execute_annotated(step);
            return Flow::kNext;
        case StmtKind::kFor:
            return execute_for(step);
        case StmtKind::kWhile:
            return execute_while(step);
        case StmtKind::kIf:
            return execute_if(step);
        case StmtKind::kReturn:
            if (frame_->environment == globals_.get())
                rejected("value_error", "'return' outside of a function").raise();
            frame_->result = step.value != nullptr ? evaluate(*step.value) : Value::none();
            return Flow::kReturn;
        case StmtKind::kFunction:
            execute_function(step);
            return Flow::kNext;
        case StmtKind::kWith:
            return execute_with(step);
        case StmtKind::kPass:
            return Flow::kNext;
        case StmtKind::kBreak:
            return Flow::kBreak;
        case StmtKind::kContinue:
            return Flow::kContinue;
        case StmtKind::kAssert:
            execute_assert(step);
            return Flow::kNext;
        case StmtKind::kImport:
        case StmtKind::kImportFrom:
            execute_import(step);
            return Flow::kNext;
        case StmtKind::kUnsupported:
            break;
    }
    if (step.text == "Global" || step.text == "Nonlocal")
        unsupported("mutable_global", fmt::format("'{}' statements are not supported",
                                                  step.text == "Global" ? "global" : "nonlocal"))
            .remedy("pass values as arguments and return them")
            .raise();
    Fault fault = unsupported("python_feature", fmt::format("'{}' is not supported", step.text));
    if (step.text == "ClassDef")
        fault.remedy("keep constants in names of the module or in a dict, not in a class");
    fault.raise();
}

Evaluator::Flow Evaluator::execute_body(const Step& step, bool& stop) {
    const Flow flow = execute(step.body);
    stop = flow == Flow::kBreak || flow == Flow::kReturn;
    return flow;
}

namespace {

/// Leaves a loop however its body ends.
class LoopScope {
  public:
    LoopScope(Builder& builder, const Step& step, LoopKind kind, const std::string& variable,
              std::int64_t trips)
        : builder_(builder), depth_(builder.enter_loop(&step, kind, variable, trips, step.line)) {}
    LoopScope(const LoopScope&) = delete;
    LoopScope& operator=(const LoopScope&) = delete;
    ~LoopScope() {
        try {
            builder_.leave_loop();
        } catch (const std::bad_alloc&) {  // of what is remembered for replaying
            builder_.refuse_replay();
        }
    }
    int depth() const { return depth_; }

  private:
    Builder& builder_;
    int depth_;
};

/// The local variables that statements bind again.
void collect_rebound(const std::vector<Step*>& steps, std::vector<int>& slots) {
    for (const Step* step : steps) {
        if (step->kind == StmtKind::kAssign || step->kind == StmtKind::kAugAssign) {
            for (const Node* target : step->targets) {
                if (target->kind == NodeKind::kLocal &&
                    std::find(slots.begin(), slots.end(), target->slot) == slots.end())
                    slots.push_back(target->slot);
            }
        }
        collect_rebound(step->body, slots);
        collect_rebound(step->otherwise, slots);
    }
}

}  // namespace

Evaluator::Flow Evaluator::execute_for(const Step& step) {
    const Value iterable = evaluate(*step.value);
    const Node& target = *step.targets[0];
    const std::string variable = target.kind == NodeKind::kLocal || target.kind == NodeKind::kGlobal
                                     ? name(target.name)
                                     : std::string();
    const bool is_range = iterable.is(Kind::kRange);
    std::vector<Value> items;
    if (!is_range) items = items_of(iterable);
    const Range range = is_range ? iterable.as<Range>() : Range{};
    const std::int64_t trips = is_range ? range.count() : static_cast<std::int64_t>(items.size());
    const LoopScope scope(builder_, step, is_range ? range.kind : LoopKind::kStatic, variable,
                          trips);
    bool stop = false;
    const bool traced_once = range.kind == LoopKind::kAffine || range.kind == LoopKind::kSequential;
    std::vector<std::pair<int, Value>> entered;
    if (is_range && traced_once) entered = numbers_rebound_in(step);
    std::optional<Replay> replay;
    if (is_range && trips >= Replay::kFewestTrips && may_replay(step))
        replay.emplace(builder_, trips, replay_plans_[&step].masked);
    for (std::int64_t k = 0; k < trips && !stop; ++k) {
        builder_.next_iteration();
        if (replay && replay->repeats(k)) {
            tick(replay->steps());
            replay->repeat(k);
            continue;
        }
        if (replay && replay->watches(k)) replay->begin(k, steps_);
        tick();
        for (const auto& [slot, number] : entered) frame_->environment->slots[slot] = number;
        if (is_range) {
            Value index = Value::integer(range.start + k * range.step);
            index.set_loop(scope.depth());
            if (range.kind != LoopKind::kStatic) index.set_marks(Value::kSymbolic);
            assign(target, std::move(index));
        } else {
            assign(target, items[k]);
        }
        if (execute_body(step, stop) == Flow::kReturn) return Flow::kReturn;
        if (!replay || !replay->watches(k)) continue;
        if (replay->end(k, steps_)) continue;
        replay.reset();
        ReplayPlan& plan = replay_plans_[&step];
        plan.possible = ++plan.failures < ReplayPlan::kMostFailures;
    }
    if (!stop && !step.otherwise.empty()) return execute(step.otherwise);
    return Flow::kNext;
}

std::vector<std::pair<int, Value>> Evaluator::numbers_rebound_in(const Step& step) {
    const auto [found, added] = rebound_.try_emplace(&step);
    if (added) collect_rebound(step.body, found->second);
    std::vector<std::pair<int, Value>> numbers;
    for (const int slot : found->second) {
        const Value& value = frame_->environment->slots[slot];
        if (value.is(Kind::kInt) || value.is(Kind::kFloat)) numbers.emplace_back(slot, value);
    }
    return numbers;
}

bool Evaluator::may_replay(const Step& step) {
    if (!options_.replay || !in_kernel_) return false;
    auto found = replay_plans_.find(&step);
    if (found == replay_plans_.end())
        found = replay_plans_.emplace(&step, analyse_replay(step, code_->names)).first;
    const ReplayPlan& plan = found->second;
    if (!plan.possible) return false;
    const std::vector<Value>& slots = frame_->environment->slots;
    return std::all_of(plan.updated.begin(), plan.updated.end(),
                       [&](int slot) { return slots[slot].is(Kind::kTile); });
}

Evaluator::Flow Evaluator::execute_while(const Step& step) {
    const LoopScope scope(builder_, step, LoopKind::kWhile, "", 0);
    bool stop = false;
    while (!stop) {
        tick();
        builder_.next_iteration();
        line_ = step.line;
        column_ = step.column;
        const Value test = evaluate(*step.value);
        if (test.is(Kind::kTile) || test.is(Kind::kPending))
            rejected("while_loop_requires_unconditional_entry",
                     "a while loop cannot test the value of a tensor before its first iteration")
                .at(step.line, step.column)
                .remedy("loop over a range: the number of iterations must be known")
                .raise();
        if (!truth(test)) break;
        if (execute_body(step, stop) == Flow::kReturn) return Flow::kReturn;
    }
    if (!stop && !step.otherwise.empty()) return execute(step.otherwise);
    return Flow::kNext;
}

Evaluator::Flow Evaluator::execute_with(const Step& step) {
    for (const auto& [context, variable] : step.items) {
        const Value value = evaluate(*context);
        const bool scope =
            value.is(Kind::kToken) && value.integer() == static_cast<int>(TokenId::kNamedScope);
        if (!scope)
            unsupported("python_feature", "'with' is supported for profiling scopes only").raise();
        if (variable != nullptr) assign(*variable, value);
    }
    return execute(step.body);
}

void Evaluator::execute_assert(const Step& step) {
    const Value test = evaluate(*step.value);
    if (truth(test)) return;
    std::string message = "assertion failed";
    if (step.annotation != nullptr) message += ": " + str(evaluate(*step.annotation));
    rejected("assertion_failed", std::move(message)).at(step.line, step.column).raise();
}

namespace {

bool is_decorator(const ApiEntry& entry) {
    return entry.handler == api::decorator || entry.handler == api::compiler_decorator ||
           entry.handler == api::force_auto_alloc;
}

/// Leaves the branch of an `if` however its body ends.
class BranchScope {
  public:
    BranchScope(Builder& builder, bool enter) : builder_(builder), entered_(enter) {
        if (entered_) builder_.enter_branch();
    }
    BranchScope(const BranchScope&) = delete;
    BranchScope& operator=(const BranchScope&) = delete;
    ~BranchScope() {
        if (entered_) builder_.leave_branch();
    }

  private:
    Builder& builder_;
    bool entered_;
};

}  // namespace

/// An `if` on a loop variable is a branch on the device, with a scope of its own.
Evaluator::Flow Evaluator::execute_if(const Step& step) {
    const Value test = evaluate(*step.value);
    const bool chosen = truth(test);
    const BranchScope scope(builder_, in_kernel_ && (test.marks() & Value::kSymbolic) != 0);
    return execute(chosen ? step.body : step.otherwise);
}

void Evaluator::execute_function(const Step& step) {
    const Ref<Function> function = heap_.make<Function>();
    function->code = step.function;
    for (const Node* value : step.defaults)
        function->defaults.push_back(value != nullptr ? kept(evaluate(*value)) : Value());
    function->outer = frame_->environment == globals_.get() ? Ref<Environment>()
                                                            : Ref<Environment>(frame_->environment);
    Value result = Value::object(Kind::kFunction, function);
    for (auto it = step.decorators.rbegin(); it != step.decorators.rend(); ++it) {
        const Value decorator = evaluate(**it);
        const bool known = decorator.is(Kind::kApi) && is_decorator(table_[decorator.integer()]);
        if (!known)
            unsupported("python_feature", "this decorator is not supported")
                .at((*it)->line, (*it)->column)
                .remedy("use @nki.jit")
                .raise();
        const ApiEntry& entry = table_[decorator.integer()];
        function->kernel = function->kernel || entry.handler == api::decorator;
        if (entry.handler == api::force_auto_alloc) builder_.ignore_allocations();
    }
    assign(*step.targets[0], result);
    if (call_depth_ == 0) functions_.push_back(function);
}

Value Evaluator::host_module(const std::string& path) {
    auto found = std::find(host_modules_.begin(), host_modules_.end(), path);
    if (found == host_modules_.end()) found = host_modules_.insert(host_modules_.end(), path);
    return Value::token(Kind::kModule, static_cast<int>(ModuleId::kHost) +
                                           static_cast<int>(found - host_modules_.begin()));
}

void Evaluator::refuse_host_module(const Value& value) const {
    if (!value.is(Kind::kModule) || value.integer() < static_cast<int>(ModuleId::kHost)) return;
    use_of_host_module(host_modules_.at(static_cast<std::size_t>(value.integer()) -
                                        static_cast<std::size_t>(ModuleId::kHost)));
}

void Evaluator::execute_import(const Step& step) {
    for (const auto& [path, target] : step.imports) {
        if (target == nullptr)
            unsupported("python_feature", "'from module import *' is not supported").raise();
        const std::string whole = step.kind == StmtKind::kImportFrom ? step.text
                                  : path[0] == '='                   ? path.substr(1)
                                                                     : path;
        // A kernel that imports while it runs means to use it.
        if (!in_kernel_ && call_depth_ == 0 && is_host_module(whole)) {
            assign(*target, host_module(whole));
            continue;
        }
        if (step.kind == StmtKind::kImportFrom) {
            // A submodule, or a name of the module.
            const ModuleId module = import_module(step.text);
            if (module == ModuleId::kOpaque) {
                assign(*target, Value::token(Kind::kOpaque, 0));
                continue;
            }
            const std::optional<Value> value = module_attribute(table_, module, path);
            if (value) {
                assign(*target, *value);
            } else {
                const Value base = Value::token(Kind::kModule, static_cast<int>(module));
                assign(*target, attribute(base, code_->names.intern(path)));
            }
            continue;
        }
        const bool rooted = path[0] == '=';
        const std::string full = rooted ? path.substr(1) : path;
        ModuleId module = import_module(full);
        if (rooted && module != ModuleId::kOpaque)
            module = import_module(full.substr(0, full.find('.')));
        assign(*target, module == ModuleId::kOpaque
                            ? Value::token(Kind::kOpaque, 0)
                            : Value::token(Kind::kModule, static_cast<int>(module)));
    }
}

void Evaluator::assign(const Node& target, Value value) {
    switch (target.kind) {
        case NodeKind::kLocal:
        case NodeKind::kOuter:
        case NodeKind::kGlobal:
            assign_name(target, std::move(value));
            return;
        case NodeKind::kTuple:
        case NodeKind::kList:
            unpack(target, kept(std::move(value)));
            return;
        case NodeKind::kSubscript: {
            const Value base = evaluate(*target.kids[0]);
            const Value index = evaluate(*target.kids[1]);
            line_ = target.line;
            column_ = target.column;
            assign_item(base, index, std::move(value));
            return;
        }
        case NodeKind::kAttribute:
            unsupported("python_feature", "assignment to an attribute").raise();
        default:
            break;
    }
    unsupported("python_feature", "this assignment target is not supported").raise();
}

void Evaluator::assign_name(const Node& target, Value value) {
    Value& place = slot(target);
    if (value.is(Kind::kPending)) {
        OpRequest& request = value.as<Pending>().request;
        if (request.loop_reduce) refuse_replay();  // what the name stands for decides
        // nl.loop_reduce updates the tile that the name already stands for.
        if (request.loop_reduce && place.is(Kind::kTile) &&
            place.as<Tile>().shape() == request.shape && builder_.in_scope(place.as<Tile>())) {
            store_into(place.ref<Tile>(), value);
            return;
        }
        value = Value::tile(materialise(value, name(target.name)));
        slot(target) = std::move(value);
        return;
    }
    if (value.is(Kind::kTile) && value.as<Tile>().whole)
        builder_.name_tensor(value.as<Tile>().tensor, name(target.name));
    place = std::move(value);
}

void Evaluator::unpack(const Node& target, const Value& value) {
    const std::vector<Value> items = items_of(value);
    std::size_t starred = target.kids.size();
    for (std::size_t k = 0; k < target.kids.size(); ++k)
        if (target.kids[k]->kind == NodeKind::kStarred) starred = k;
    const bool has_star = starred < target.kids.size();
    const std::size_t fixed = target.kids.size() - (has_star ? 1 : 0);
    if (has_star ? items.size() < fixed : items.size() != fixed)
        rejected("value_error", fmt::format("cannot unpack {} values into {} names", items.size(),
                                            target.kids.size()))
            .raise();
    std::size_t next = 0;
    for (std::size_t k = 0; k < target.kids.size(); ++k) {
        if (k != starred) {
            assign(*target.kids[k], items[next++]);
            continue;
        }
        std::vector<Value> rest;
        for (std::size_t n = items.size() - fixed; n > 0; --n) rest.push_back(items[next++]);
        assign(*target.kids[k]->kids[0], list(std::move(rest)));
    }
}

void Evaluator::assign_item(const Value& base, const Value& index, Value value) {
    switch (base.kind()) {
        case Kind::kTile:
            store_into(index_tile(base.ref<Tile>(), index), value);
            return;
        case Kind::kList: {
            Sequence& sequence = base.as<Sequence>();
            check_mutable(sequence);
            refuse_replay();
            const auto size = static_cast<std::int64_t>(sequence.items.size());
            std::int64_t k = to_integer(index, "a list index");
            if (k < 0) k += size;
            if (k < 0 || k >= size)
                rejected("value_error", fmt::format("list index {} out of range", k)).raise();
            sequence.items[k] = kept(std::move(value));
            return;
        }
        case Kind::kDict:
            check_mutable(base.as<Mapping>());
            refuse_replay();
            set_entry(base.as<Mapping>(), index, kept(std::move(value)));
            return;
        case Kind::kAffine:
        case Kind::kMask:
            rejected("cannot_assign_to_index", "an index or mask does not support item assignment")
                .remedy("turn the index into a tile with nisa.iota first")
                .raise();
        default:
            break;
    }
    rejected("type_error",
             fmt::format("'{}' does not support item assignment", kind_name(base.kind())))
        .raise();
}

void Evaluator::execute_augmented(const Step& step) {
    const Node& target = *step.targets[0];
    if (target.kind == NodeKind::kSubscript) {
        const Value base = evaluate(*target.kids[0]);
        const Value index = evaluate(*target.kids[1]);
        line_ = target.line;
        column_ = target.column;
        if (base.is(Kind::kTile)) {
            const Ref<Tile> destination = index_tile(base.ref<Tile>(), index);
            const Value value = evaluate(*step.value);
            line_ = step.line;
            column_ = step.column;
            site_ = target.id;
            accumulate_into(destination, step.op, value);
            return;
        }
        refuse_replay();
        const Value current = subscript(base, index);
        const Value value = evaluate(*step.value);
        assign_item(base, index, binary(step.op, current, value));
        return;
    }
    if (target.kind == NodeKind::kUndefinedName || target.kind == NodeKind::kBuiltinName ||
        target.kind == NodeKind::kAttribute)
        unsupported("python_feature", "this assignment target is not supported").raise();
    const Value current = load_name(target);
    const Value value = evaluate(*step.value);
    line_ = step.line;
    column_ = step.column;
    site_ = target.id;
    if (current.is(Kind::kTile)) {
        accumulate_into(current.ref<Tile>(), step.op, value);
    } else if (current.is(Kind::kList) && step.op == Op::kAdd) {
        check_mutable(current.as<Sequence>());
        refuse_replay();
        for (Value& item : items_of(value)) append(current.as<Sequence>(), std::move(item));
    } else if (current.is(Kind::kArray)) {
        unsupported("python_feature", "an update of a numpy array in place")
            .remedy("bind the result to a name: a = a + b")
            .raise();
    } else {
        assign(target, binary(step.op, current, value));
    }
}

void Evaluator::execute_annotated(const Step& step) {
    if (step.value == nullptr) return;
    Value value = evaluate(*step.value);
    const Node& target = *step.targets[0];
    if (step.annotation != nullptr && (value.is(Kind::kTile) || value.is(Kind::kPending))) {
        std::vector<std::int64_t> expected;
        const Value shape = evaluate(*step.annotation);
        if (shape.is(Kind::kTuple)) {
            for (const Value& n : shape.as<Sequence>().items)
                expected.push_back(to_integer(n, "a shape"));
        } else {
            expected.push_back(to_integer(shape, "a shape"));
        }
        const std::vector<std::int64_t> actual =
            value.is(Kind::kTile) ? value.as<Tile>().shape() : value.as<Pending>().request.shape;
        if (expected != actual)
            rejected("annotation_shape_mismatch",
                     fmt::format("the value has shape {}, the annotation says {}",
                                 shape_text(actual), shape_text(expected)))
                .shape(actual)
                .shape(expected)
                .raise();
    }
    assign(target, std::move(value));
}

}  // namespace accelopt::nki::interp
