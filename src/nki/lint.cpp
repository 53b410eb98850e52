#include "nki/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/text.h"
#include "nki/api.h"
#include "nki/builtins.h"
#include "nki/code.h"
#include "nki/failure.h"
#include "nki/modules.h"

namespace accelopt::nki {
namespace {

using interp::ApiParameters;
using interp::Code;
using interp::FunctionCode;
using interp::Kind;
using interp::ModuleId;
using interp::Node;
using interp::NodeKind;
using interp::Step;
using interp::Value;

/// Calls `f` for every expression of a statement, its nested statements left out.
template <typename F>
void each_node(const Node* node, F&& f) {
    if (node == nullptr) return;
    f(*node);
    for (const Node* kid : node->kids) each_node(kid, f);
    for (const Node* value : node->defaults) each_node(value, f);
    for (const Node::Clause& clause : node->clauses) {
        each_node(clause.target, f);
        each_node(clause.iterable, f);
        for (const Node* condition : clause.conditions) each_node(condition, f);
    }
    if (node->function != nullptr) each_node(node->function->expression, f);
}

template <typename F>
void each_node(const Step& step, F&& f) {
    for (const Node* target : step.targets) each_node(target, f);
    each_node(step.value, f);
    each_node(step.annotation, f);
    for (const Node* value : step.defaults) each_node(value, f);
    for (const Node* decorator : step.decorators) each_node(decorator, f);
    for (const auto& [context, variable] : step.items) {
        each_node(context, f);
        each_node(variable, f);
    }
}

class Linter {
  public:
    explicit Linter(const Module& module)
        : heap_(256 * 1024 * 1024), code_(interp::lower(module, heap_)) {}

    std::vector<LintFinding> run() {
        find_imports(code_->module->body);
        find_functions(code_->module->body);
        reach(code_->module->body);
        for (const auto& [slot, step] : functions_)
            if (is_entry(*step)) reach_function(slot);
        // A file without a kernel of its own: everything counts.
        if (std::none_of(functions_.begin(), functions_.end(),
                         [this](const auto& entry) { return is_entry(*entry.second); }))
            for (const auto& [slot, step] : functions_) reach_function(slot);
        block(code_->module->body, true);
        std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
            return a.finding.line < b.finding.line;
        });
        return std::move(found_);
    }

  private:
    const std::string& text(int name) const { return code_->names.text(name); }

    void report(const char* severity, Finding finding, bool reached) {
        LintFinding found;
        found.severity = reached ? severity : "warning";
        found.finding = std::move(finding);
        found_.push_back(std::move(found));
    }

    static Finding at(const Node& node, std::string outcome, std::string code,
                      std::string message) {
        Finding finding;
        finding.outcome = std::move(outcome);
        finding.code = std::move(code);
        finding.message = std::move(message);
        finding.line = node.line;
        finding.column = node.column;
        return finding;
    }

    /// Module-level names that are imported once and never rebound.
    void find_imports(const std::vector<Step*>& steps) {
        std::unordered_map<int, int> bound;
        for (const Step* step : steps) {
            for (const Node* target : step->targets)
                if (target->kind == NodeKind::kGlobal) ++bound[target->slot];
            for (const auto& [path, target] : step->imports) {
                if (target == nullptr || target->kind != NodeKind::kGlobal) continue;
                ++bound[target->slot];
                try {
                    if (const auto value = imported(*step, path)) names_[target->slot] = *value;
                } catch (const interp::TraceFailure&) {
                    continue;  // the rule on imports says so
                }
            }
        }
        for (const auto& [slot, times] : bound)
            if (times > 1) names_.erase(slot);
    }

    static std::optional<Value> imported(const Step& step, const std::string& path) {
        if (step.kind == StmtKind::kImportFrom)
            return interp::module_attribute(interp::nki1_api(), interp::import_module(step.text),
                                            path);
        const bool rooted = path[0] == '=';
        const std::string full = rooted ? path.substr(1) : path;
        ModuleId module = interp::import_module(full);
        if (rooted && module != ModuleId::kOpaque)
            module = interp::import_module(full.substr(0, full.find('.')));
        return Value::token(Kind::kModule, static_cast<int>(module));
    }

    void find_functions(const std::vector<Step*>& steps) {
        for (const Step* step : steps)
            if (step->kind == StmtKind::kFunction && step->targets[0]->kind == NodeKind::kGlobal)
                functions_[step->targets[0]->slot] = step;
    }

    bool is_entry(const Step& step) const {
        const std::string& name = step.function->name;
        return !step.decorators.empty() || name == "kernel" || name == "optimized_kernel";
    }

    void reach_function(int slot) {
        const auto found = functions_.find(slot);
        if (found == functions_.end() || !reached_.insert(slot).second) return;
        reach(found->second->function->body);
    }

    void reach(const std::vector<Step*>& steps) {
        for (const Step* step : steps) {
            each_node(*step, [this](const Node& node) {
                const bool load = node.kind == NodeKind::kGlobal;
                if (load && functions_.contains(node.slot) && !is_definition(node))
                    reach_function(node.slot);
            });
            // A nested function is part of the one around it.
            if (step->kind == StmtKind::kFunction && step->targets[0]->kind != NodeKind::kGlobal)
                reach(step->function->body);
            reach(step->body);
            reach(step->otherwise);
        }
    }

    bool is_definition(const Node& node) const {
        return functions_.at(node.slot)->targets[0] == &node;
    }

    void block(const std::vector<Step*>& steps, bool reached) {
        for (const Step* step : steps) {
            statement(*step, reached);
            if (step->kind == StmtKind::kFunction) {
                const Node& target = *step->targets[0];
                const bool global = target.kind == NodeKind::kGlobal;
                const bool used = global ? reached_.contains(target.slot) : reached;
                if (!used && global)
                    report("warning",
                           at(target, "", "unused_code",
                              fmt::format("nothing reaches the function '{}' from a kernel",
                                          step->function->name)),
                           true);
                block(step->function->body, used);
            }
            block(step->body, reached);
            block(step->otherwise, reached);
        }
    }

    void statement(const Step& step, bool reached) {
        if (step.kind == StmtKind::kUnsupported) {
            const bool global = step.text == "Global" || step.text == "Nonlocal";
            Finding finding;
            finding.outcome = "unsupported";
            finding.code = global ? "mutable_global" : "python_feature";
            finding.message = fmt::format("'{}' is not supported", step.text);
            finding.line = step.line;
            finding.column = step.column;
            if (global) finding.remedy = "pass values as arguments and return them";
            report("error", std::move(finding), reached);
            return;
        }
        each_node(step, [&](const Node& node) { expression(node, reached); });
    }

    void expression(const Node& node, bool reached) {
        switch (node.kind) {
            case NodeKind::kUndefinedName:
                undefined(node, reached);
                return;
            case NodeKind::kUnsupported:
                report("error",
                       at(node, "unsupported", "python_feature",
                          fmt::format("'{}' is not supported", node.text)),
                       reached);
                return;
            case NodeKind::kAttribute:
                attribute(node, reached);
                return;
            case NodeKind::kCall:
                call(node, reached);
                return;
            default:
                return;
        }
    }

    void undefined(const Node& node, bool reached) {
        const std::string& name = text(node.name);
        std::vector<std::string> known;
        for (const auto& [id, slot] : code_->globals) known.push_back(text(id));
        std::sort(known.begin(), known.end());
        const std::string near = nearest_word(name, known);
        report("error",
               at(node, "rejected", "undefined_name",
                  fmt::format("name '{}' is not defined{}", name,
                              near.empty() ? "" : fmt::format(", did you mean '{}'?", near))),
               reached);
    }

    /// What an expression stands for, as far as imports tell.
    std::optional<Value> resolve(const Node& node) const {
        if (node.kind == NodeKind::kGlobal) {
            const auto found = names_.find(node.slot);
            return found == names_.end() ? std::nullopt : std::optional<Value>(found->second);
        }
        if (node.kind != NodeKind::kAttribute) return std::nullopt;
        const std::optional<Value> base = resolve(*node.kids[0]);
        if (!base || !base->is(Kind::kModule)) return std::nullopt;
        return interp::module_attribute(interp::nki1_api(), static_cast<ModuleId>(base->integer()),
                                        text(node.name));
    }

    void attribute(const Node& node, bool reached) {
        const std::string& name = text(node.name);
        if (name.starts_with("__")) {
            report("error",
                   at(node, "rejected", "forbidden_api",
                      fmt::format("a kernel cannot access '{}'", name)),
                   reached);
            return;
        }
        const std::optional<Value> base = resolve(*node.kids[0]);
        if (!base || !base->is(Kind::kModule)) return;
        const auto module = static_cast<ModuleId>(base->integer());
        if (module == ModuleId::kOpaque ||
            interp::module_attribute(interp::nki1_api(), module, name))
            return;
        const std::string near =
            nearest_word(name, interp::module_names(interp::nki1_api(), module));
        Finding finding =
            at(node, "unsupported", "unknown_api",
               fmt::format("{} has no '{}'{}", interp::module_path(module), name,
                           near.empty() ? "" : fmt::format(", did you mean '{}'?", near)));
        finding.remedy = "accelopt check --list-api lists what there is";
        report("error", std::move(finding), reached);
    }

    /// The argument of a call to an API, by name or position; nullptr: not given.
    const Node* argument(const Node& node, const ApiParameters& parameters,
                         const char* name) const {
        for (std::size_t k = 0; k < node.keywords.size(); ++k)
            if (node.keywords[k] >= 0 && text(node.keywords[k]) == name)
                return node.kids[node.kids.size() - node.keywords.size() + k];
        const int position = parameters.find(name);
        const std::size_t given = node.kids.size() - 1 - node.keywords.size();
        if (position < 0 || static_cast<std::size_t>(position) >= given) return nullptr;
        return node.kids[static_cast<std::size_t>(position) + 1];
    }

    bool calls(const Node& node, const char* api) const {
        if (node.kind != NodeKind::kCall) return false;
        const std::optional<Value> callee = resolve(*node.kids[0]);
        return callee && callee->is(Kind::kApi) &&
               interp::nki1_api()[callee->integer()].name == std::string_view(api);
    }

    /// Block dimensions: compilers since SDK 2.23 warn of them (NKI release notes), later ones
    /// refuse them (nki.errors).
    void block_dimensions(const Node& node, const ApiParameters& parameters, bool reached) {
        const Node* shape = argument(node, parameters, "shape");
        if (shape == nullptr || (shape->kind != NodeKind::kTuple && shape->kind != NodeKind::kList))
            return;
        const auto marked = std::find_if(shape->kids.begin(), shape->kids.end(),
                                         [this](const Node* n) { return calls(*n, "nl.par_dim"); });
        if (marked == shape->kids.end() || marked == shape->kids.begin()) return;
        const Node* buffer = argument(node, parameters, "buffer");
        if (buffer != nullptr && buffer->kind == NodeKind::kAttribute &&
            text(buffer->name).find("hbm") != std::string::npos)
            return;
        Finding finding = at(node, "", "leading_dimension_of_tensor_must_be_partition",
                             "block dimensions in front of nl.par_dim are deprecated");
        finding.remedy =
            "put the blocks behind the partition dimension, or create the tile inside the loop";
        report("warning", std::move(finding), reached);
    }

    void call(const Node& node, bool reached) {
        const std::optional<Value> callee = resolve(*node.kids[0]);
        const Node& place = *node.kids[0];
        if (place.kind == NodeKind::kBuiltinName && interp::is_forbidden_builtin(place.slot)) {
            report("error",
                   at(node, "rejected", "forbidden_api",
                      fmt::format("a kernel cannot call {}()", interp::builtin_name(place.slot))),
                   reached);
            return;
        }
        if (!callee || !callee->is(Kind::kApi)) return;
        const auto& entry = interp::nki1_api()[callee->integer()];
        if (entry.handler == nullptr) {
            report("error",
                   at(node, "unsupported", "unknown_api",
                      fmt::format("{} is not supported", entry.name)),
                   reached);
            return;
        }
        const ApiParameters& parameters = interp::nki1_api().parameters(callee->integer());
        block_dimensions(node, parameters, reached);
        std::vector<std::string> names;
        for (const auto& parameter : parameters.list) names.push_back(parameter.name);
        for (std::size_t k = 0; k < node.keywords.size(); ++k) {
            if (node.keywords[k] < 0 || parameters.find(text(node.keywords[k])) >= 0) continue;
            if (parameters.mask >= 0 && text(node.keywords[k]) == "name") continue;
            const std::string near = nearest_word(text(node.keywords[k]), names);
            Finding finding =
                at(node, "rejected", "type_error",
                   fmt::format("{}() got an unexpected keyword argument '{}'{}", entry.name,
                               text(node.keywords[k]),
                               near.empty() ? "" : fmt::format(", did you mean '{}'?", near)));
            finding.operation = entry.name;
            finding.remedy = "its parameters are: " + join(names, ", ");
            report("error", std::move(finding), reached);
        }
    }

    interp::Heap heap_;
    std::unique_ptr<Code> code_;
    std::unordered_map<int, Value> names_;  ///< slot of a module-level name -> what it stands for
    std::unordered_map<int, const Step*> functions_;  ///< module-level functions by slot
    std::unordered_set<int> reached_;
    std::vector<LintFinding> found_;
};

}  // namespace

std::vector<LintFinding> lint(const Module& module) {
    std::vector<LintFinding> found;
    try {
        found = Linter(module).run();
    } catch (const interp::TraceFailure& failure) {  // literals beyond the heap of a kernel
        found.push_back({"error", failure.finding});
    }
    if (auto finding = check_rules(module)) found.insert(found.begin(), {"error", *finding});
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.finding.line < b.finding.line; });
    return found;
}

}  // namespace accelopt::nki
