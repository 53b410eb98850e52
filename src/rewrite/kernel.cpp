#include "rewrite/kernel.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/error.h"
#include "rewrite/build.h"

namespace accelopt::rewrite {

using nki::Block;
using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Module;
using nki::Stmt;
using nki::StmtKind;

namespace {

struct ModulePrefix {
    const char* full;
    const char* canonical;
};

// Longest first. `import x.y as z` makes z stand for the full path.
constexpr std::array<ModulePrefix, 9> kPrefixes = {{{"neuronxcc.nki.language", "nl"},
                                                    {"neuronxcc.nki.typing", "nt"},
                                                    {"neuronxcc.nki.isa", "nisa"},
                                                    {"neuronxcc.nki", "nki"},
                                                    {"nki.language", "nl"},
                                                    {"nki.isa", "nisa"},
                                                    {"nki", "nki"},
                                                    {"numpy", "np"},
                                                    {"math", "math"}}};

bool starts_with_path(const std::string& text, const std::string& prefix) {
    return text.rfind(prefix, 0) == 0 &&
           (text.size() == prefix.size() || text[prefix.size()] == '.');
}

std::string canonical(const std::string& path) {
    for (const ModulePrefix& prefix : kPrefixes) {
        if (!starts_with_path(path, prefix.full)) continue;
        const std::string rest = path.substr(std::string(prefix.full).size());
        const std::string out = prefix.canonical + rest;
        // "nki.isa.x" is "nisa.x": one more round.
        return out != path && starts_with_path(out, "nki") && !rest.empty() ? canonical(out) : out;
    }
    return path;
}

std::string dotted(const Expr& expr) {
    if (expr.kind == ExprKind::kName) return expr.text;
    if (expr.kind != ExprKind::kAttribute) return "";
    const std::string base = dotted(*expr.operands[0]);
    return base.empty() ? "" : base + "." + expr.text;
}

/// The array that a view expression (name, subscript, reshape, broadcast) looks into; "" when it
/// makes a value of its own.
std::string view_base(const Kernel& kernel, const Expr& value) {
    if (value.kind == ExprKind::kName) return value.text;
    if (value.kind == ExprKind::kSubscript) return view_base(kernel, *value.operands[0]);
    if (value.kind != ExprKind::kCall) return "";
    const std::string path = kernel.callee(value);
    if (path == "nl.broadcast_to" || path == "nl.expand_dims") {
        const Expr* source = argument(value, 0, "src");
        return source ? view_base(kernel, *source) : "";
    }
    static const std::set<std::string> kViews = {"reshape", "broadcast_to", "view", "astype",
                                                 "expand_dims"};
    const Expr& head = *value.operands[0];
    const bool method = head.kind == ExprKind::kAttribute && kViews.count(head.text) > 0;
    return method ? view_base(kernel, *head.operands[0]) : "";
}

bool is_entry_decorator(const std::string& path) {
    return path == "nki.jit" || path == "nki.baremetal" || path == "nki.benchmark" ||
           path == "nki.profile" || path == "nki.trace";
}

}  // namespace

const Expr* argument(const Expr& call, std::size_t position, const std::string& keyword) {
    if (position + 1 < call.operands.size()) return call.operands[position + 1].get();
    for (const auto& entry : call.keywords) {
        if (entry.name == keyword) return entry.value.get();
    }
    return nullptr;
}

ExprPtr* argument_slot(Expr& call, std::size_t position, const std::string& keyword) {
    if (position + 1 < call.operands.size()) return &call.operands[position + 1];
    for (auto& entry : call.keywords) {
        if (entry.name == keyword) return &entry.value;
    }
    return nullptr;
}

bool is_none(const Expr* expr) {
    return expr == nullptr ||
           (expr->kind == ExprKind::kConstant && std::holds_alternative<nki::None>(expr->constant));
}

std::optional<Kernel> Kernel::open(Module module, Shapes input_shapes) {
    Kernel kernel;
    kernel.module_ = std::move(module);
    kernel.input_shapes_ = std::move(input_shapes);
    kernel.collect_imports(kernel.module_.body);
    Stmt* named = nullptr;
    Stmt* decorated = nullptr;
    Stmt* only = nullptr;
    int functions = 0;
    for (auto& stmt : kernel.module_.body) {
        if (stmt->kind != StmtKind::kFunction) continue;
        ++functions;
        only = stmt.get();
        if (stmt->text == "kernel" || (stmt->text == "optimized_kernel" && !named)) {
            named = stmt.get();
        }
        for (const ExprPtr& decorator : stmt->decorators) {
            const Expr& head =
                decorator->kind == ExprKind::kCall ? *decorator->operands[0] : *decorator;
            if (is_entry_decorator(kernel.path(head))) decorated = stmt.get();
        }
    }
    kernel.function_ = decorated ? decorated : named ? named : functions == 1 ? only : nullptr;
    if (!kernel.function_) return std::nullopt;
    kernel.refresh();
    return kernel;
}

Kernel Kernel::clone() const {
    auto copy = open(nki::clone(module_), input_shapes_);
    require(copy.has_value(), "a kernel's copy is a kernel");
    copy->needed_imports_ = needed_imports_;
    return std::move(*copy);
}

void Kernel::refresh() {
    aliases_.clear();
    bindings_.clear();
    memory_.clear();
    inputs_.clear();
    name_shapes_.clear();
    fill_values_.clear();
    reads_.reset();
    collect_imports(module_.body);
    collect_imports(function_->body);
    for (auto& stmt : module_.body) {
        if (stmt->kind != StmtKind::kAssign) continue;
        for (const ExprPtr& target : stmt->targets) bind_target(*target, *stmt);
    }
    for (const auto& parameter : function_->parameters) {
        Binding& binding = bindings_[parameter.name];
        ++binding.count;
        binding.parameter = true;
    }
    collect_bindings(function_->body);
    match_inputs();
    collect_memory();
}

Module Kernel::take() {
    std::size_t at = 0;
    for (std::size_t i = 0; i < module_.body.size(); ++i) {
        const StmtKind kind = module_.body[i]->kind;
        if (kind == StmtKind::kImport || kind == StmtKind::kImportFrom) at = i + 1;
    }
    for (const std::string& module : needed_imports_) {
        auto stmt = std::make_unique<Stmt>();
        stmt->kind = StmtKind::kImport;
        stmt->names.push_back({"neuronxcc.nki." + module, module == "isa" ? "nisa" : "nl"});
        module_.body.insert(module_.body.begin() + static_cast<std::ptrdiff_t>(at),
                            std::move(stmt));
    }
    return std::move(module_);
}

void Kernel::collect_imports(const Block& block) {
    for (const auto& stmt : block) {
        for (const auto& imported : stmt->names) {
            if (stmt->kind == StmtKind::kImport) {
                const std::string head = imported.name.substr(0, imported.name.find('.'));
                if (imported.alias.empty()) {
                    aliases_[head] = head;
                } else {
                    aliases_[imported.alias] = canonical(imported.name);
                }
            } else if (stmt->kind == StmtKind::kImportFrom) {
                aliases_[imported.alias.empty() ? imported.name : imported.alias] =
                    canonical(stmt->text + "." + imported.name);
            }
        }
    }
}

std::string Kernel::path(const Expr& expr) const {
    const std::string text = dotted(expr);
    if (text.empty()) return "";
    const std::string head = text.substr(0, text.find('.'));
    const auto bound = bindings_.find(head);
    if (bound != bindings_.end() && bound->second.count > 0) return text;
    const auto alias = aliases_.find(head);
    std::string out = alias == aliases_.end() ? text : alias->second + text.substr(head.size());
    // Only these prefixes have a shorter spelling.
    const bool settled = out.rfind("nl.", 0) == 0 || out.rfind("nisa.", 0) == 0 ||
                         out.rfind("np.", 0) == 0 || out.find('.') == std::string::npos;
    return settled ? out : canonical(out);
}

std::string Kernel::callee(const Expr& expr) const {
    return expr.kind == ExprKind::kCall ? path(*expr.operands[0]) : "";
}

ExprPtr Kernel::api(const std::string& wanted) {
    const std::string module = wanted.substr(0, wanted.find('.'));
    const std::string rest = wanted.substr(module.size());
    std::string best;
    for (const auto& [name, full] : aliases_) {
        if (bindings_.count(name) > 0) continue;
        std::string spelled;
        const std::string& path = full;
        if (path == module) spelled = name + rest;
        if (path == wanted && best.empty()) spelled = name;
        if (!spelled.empty() && (best.empty() || spelled.size() < best.size())) best = spelled;
    }
    if (!best.empty()) return make_dotted(best);
    needed_imports_.insert(module == "nisa" ? "isa" : "language");
    return make_dotted(wanted);
}

std::string Kernel::fresh_name(const std::string& wish) const {
    std::set<std::string> used;
    visit(module_.body, [&](const Expr& node) {
        if (node.kind == ExprKind::kName) used.insert(node.text);
        return true;
    });
    for (const auto& parameter : function_->parameters) used.insert(parameter.name);
    for (const auto& [name, path] : aliases_) used.insert(name);
    if (used.count(wish) == 0) return wish;
    for (int i = 2;; ++i) {
        const std::string name = wish + "_" + std::to_string(i);
        if (used.count(name) == 0) return name;
    }
}

void Kernel::bind_target(const Expr& target, const Stmt& stmt) {
    if (target.kind == ExprKind::kName) {
        Binding& binding = bindings_[target.text];
        binding.stmt = &stmt;
        if (stmt.kind == StmtKind::kAugAssign) {
            binding.updated = true;
            return;
        }
        ++binding.count;
        if (stmt.kind == StmtKind::kFor) binding.loop_variable = true;
        if (stmt.kind == StmtKind::kAssign && stmt.value) {
            binding.values.push_back(stmt.value.get());
        }
        return;
    }
    if (target.kind != ExprKind::kTuple && target.kind != ExprKind::kList) return;
    for (std::size_t i = 0; i < target.operands.size(); ++i) {
        const Expr& item = *target.operands[i];
        if (item.kind != ExprKind::kName) {
            bind_target(item, stmt);
            continue;
        }
        Binding& binding = bindings_[item.text];
        ++binding.count;
        binding.stmt = &stmt;
        binding.unpacked = stmt.kind == StmtKind::kAssign ? stmt.value.get() : nullptr;
        binding.element = static_cast<int>(i);
        if (stmt.kind == StmtKind::kFor) binding.loop_variable = true;
    }
}

void Kernel::collect_bindings(Block& block) {
    for (auto& stmt : block) {
        if (stmt->kind == StmtKind::kFunction) ++bindings_[stmt->text].count;
        for (const ExprPtr& target : stmt->targets) bind_target(*target, *stmt);
        for (const auto& item : stmt->items) {
            if (item.variable) bind_target(*item.variable, *stmt);
        }
        if (stmt->value) {
            visit(*stmt->value, [&](const Expr& node) {
                if (node.kind == ExprKind::kNamed) ++bindings_[node.operands[0]->text].count;
                return true;
            });
        }
        collect_bindings(stmt->body);
        collect_bindings(stmt->otherwise);
    }
}

void Kernel::match_inputs() {
    std::set<std::string> tensors;
    visit(function_->body, [&](const Expr& node) {
        const bool indexed = node.kind == ExprKind::kSubscript || node.kind == ExprKind::kAttribute;
        if (indexed && node.operands[0]->kind == ExprKind::kName) {
            tensors.insert(node.operands[0]->text);
        }
        if (node.kind == ExprKind::kCall && node.operands.size() > 1 &&
            node.operands[1]->kind == ExprKind::kName) {
            const std::string path = callee(node);
            if (path == "nl.load" || path == "nisa.dma_copy")
                tensors.insert(node.operands[1]->text);
        }
        return true;
    });
    std::vector<std::string> names;
    for (const auto& parameter : function_->parameters) {
        if (tensors.count(parameter.name) > 0) names.push_back(parameter.name);
    }
    if (names.size() != input_shapes_.size()) {
        names.clear();
        for (const auto& parameter : function_->parameters) names.push_back(parameter.name);
    }
    if (names.size() != input_shapes_.size()) return;
    for (std::size_t i = 0; i < names.size(); ++i) inputs_[names[i]] = input_shapes_[i];
}

void Kernel::collect_memory() {
    std::function<std::string(const std::string&)> root = [&](const std::string& name) {
        const auto entry = memory_.find(name);
        return entry == memory_.end() || entry->second == name ? name : root(entry->second);
    };
    for (const auto& [name, binding] : bindings_) {
        for (const Expr* value : binding.values) {
            const std::string base = view_base(*this, *value);
            if (base.empty() || bindings_.count(base) == 0 || number(*value)) continue;
            const std::string a = root(name);
            const std::string b = root(base);
            if (a != b) memory_[a] = b;
        }
    }
    for (auto& [name, base] : memory_) base = root(base);
}

std::string Kernel::memory(const std::string& name) const {
    const auto entry = memory_.find(name);
    return entry == memory_.end() ? name : entry->second;
}

const Binding* Kernel::binding(const std::string& name) const {
    const auto entry = bindings_.find(name);
    return entry == bindings_.end() ? nullptr : &entry->second;
}

const Expr* Kernel::allocation(const std::string& name) const {
    const Binding* bound = binding(name);
    if (!bound || !bound->only()) return nullptr;
    const Expr* value = bound->only();
    static const std::set<std::string> kMakers = {"nl.ndarray", "nl.zeros", "nl.ones", "nl.full",
                                                  "nl.empty"};
    return kMakers.count(callee(*value)) > 0 ? value : nullptr;
}

std::string Kernel::buffer(const std::string& name) const {
    if (is_input(name)) return "hbm";
    const Expr* made = allocation(name);
    if (!made) return "";
    const Expr* where = argument(*made, callee(*made) == "nl.full" ? 3 : 2, "buffer");
    if (is_none(where)) return "sbuf";
    const std::string text = path(*where);
    if (text.find("hbm") != std::string::npos) return "hbm";
    if (text.find("psum") != std::string::npos) return "psum";
    return text == "nl.sbuf" ? "sbuf" : "";
}

bool Kernel::is_input(const std::string& name) const {
    const Binding* bound = binding(name);
    return bound && bound->parameter && bound->count == 1;
}

namespace {

bool is_pure_call(const std::string& path) {
    if (path == "nl.store" || path == "nl.atomic_rmw" || path == "nisa.dma_copy" ||
        path == "nl.device_print") {
        return false;
    }
    static const std::set<std::string> kBuiltins = {"range", "len",   "min",   "max",       "int",
                                                    "float", "tuple", "list",  "abs",       "print",
                                                    "str",   "bool",  "slice", "isinstance"};
    return kBuiltins.count(path) > 0 || path.rfind("nl.", 0) == 0 || path.rfind("nisa.", 0) == 0 ||
           path.rfind("np.", 0) == 0 || path.rfind("math.", 0) == 0;
}

}  // namespace

void Kernel::add_call_effects(const Expr& expr, bool statement, Effects& effects) const {
    visit(expr, [&](const Expr& node) {
        if (node.kind == ExprKind::kNamed) effects.writes.insert(memory(node.operands[0]->text));
        if (node.kind != ExprKind::kCall) return true;
        const std::string path = callee(node);
        const Expr& head = *node.operands[0];
        // A method of a tensor (reshape, broadcast_to, np.dtype(...).type) has no effect.
        const bool method = path.empty() && head.kind == ExprKind::kAttribute;
        const bool bound_method = head.kind == ExprKind::kAttribute && !path.empty() &&
                                  binding(path.substr(0, path.find('.'))) != nullptr;
        if (path == "nl.store" || path == "nl.atomic_rmw" || path == "nisa.dma_copy") {
            if (const Expr* target = argument(node, 0, "dst")) {
                effects.writes.insert(memory(base_name(*target)));
            }
        } else if (!is_pure_call(path) && !method && !bound_method) {
            effects.unknown = true;
        } else if (statement && &node == &expr) {
            std::set<std::string> names;
            collect_names(node, names);
            for (const std::string& name : names) effects.writes.insert(memory(name));
        }
        return true;
    });
}

void Kernel::add_effects(const Stmt& stmt, Effects& effects) const {
    std::function<void(const Expr&)> write = [&](const Expr& target) {
        if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kList) {
            for (const ExprPtr& item : target.operands) write(*item);
            return;
        }
        effects.writes.insert(memory(base_name(target)));
    };
    for (const ExprPtr& target : stmt.targets) {
        write(*target);
        add_call_effects(*target, false, effects);
    }
    if (stmt.kind == StmtKind::kFunction || stmt.kind == StmtKind::kUnsupported) {
        effects.unknown = true;
    }
    for (const auto& item : stmt.items) {
        if (item.variable) write(*item.variable);
    }
    if (stmt.value) {
        add_call_effects(*stmt.value, stmt.kind == StmtKind::kExpression, effects);
    }
    for (const auto& inner : stmt.body) add_effects(*inner, effects);
    for (const auto& inner : stmt.otherwise) add_effects(*inner, effects);
}

Effects Kernel::effects(const Stmt& stmt) const {
    Effects out;
    add_effects(stmt, out);
    return out;
}

void Kernel::count_reads(const Block& block, std::map<std::string, int>& counts) const {
    auto read = [&](const Expr& node) {
        if (node.kind == ExprKind::kName) ++counts[node.text];
        return true;
    };
    for (const auto& stmt : block) {
        for (const ExprPtr& target : stmt->targets) {
            if (stmt->kind != StmtKind::kAssign || base_name(*target).empty()) {
                visit(*target, read);
                continue;
            }
            // The base is written; the indices are read.
            for (const Expr* node = target.get(); node->kind == ExprKind::kSubscript;
                 node = node->operands[0].get()) {
                visit(*node->operands[1], read);
            }
        }
        if (stmt->value) visit(*stmt->value, read);
        if (stmt->annotation) visit(*stmt->annotation, read);
        for (const auto& item : stmt->items) visit(*item.context, read);
        count_reads(stmt->body, counts);
        count_reads(stmt->otherwise, counts);
    }
}

int Kernel::reads(const std::string& name) const {
    if (!reads_) count_reads(function_->body, reads_.emplace());
    const auto entry = reads_->find(name);
    return entry == reads_->end() ? 0 : entry->second;
}

}  // namespace accelopt::rewrite
