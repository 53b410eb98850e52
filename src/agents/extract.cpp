#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "agents/agents.h"
#include "agents/edits.h"
#include "agents/fence.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::agents {
namespace {

/// "nki.jit" for a decorator nki.jit or nki.jit(...); the last two names of a longer path.
std::string decorator_path(const nki::Expr& decorator) {
    if (decorator.kind == nki::ExprKind::kCall && !decorator.operands.empty()) {
        return decorator_path(*decorator.operands[0]);
    }
    if (decorator.kind == nki::ExprKind::kName) return decorator.text;
    if (decorator.kind != nki::ExprKind::kAttribute || decorator.operands.empty()) return "";
    const nki::Expr& base = *decorator.operands[0];
    const bool named = base.kind == nki::ExprKind::kName || base.kind == nki::ExprKind::kAttribute;
    return named ? base.text + "." + decorator.text : "";
}

bool is_kernel_decorator(const std::string& path) {
    static constexpr const char* kPaths[] = {
        "nki.jit", "nki.baremetal", "nki.benchmark", "nki.profile", "nki.trace", "nki_jit", "jit"};
    return std::find(std::begin(kPaths), std::end(kPaths), path) != std::end(kPaths);
}

bool is_entry_name(const std::string& name) {
    return name == "kernel" || name == "optimized_kernel";
}

bool has_entry(const nki::Module& module) {
    return std::any_of(module.body.begin(), module.body.end(), [](const nki::StmtPtr& statement) {
        if (statement->kind != nki::StmtKind::kFunction) return false;
        if (is_entry_name(statement->text)) return true;
        return std::any_of(statement->decorators.begin(), statement->decorators.end(),
                           [](const nki::ExprPtr& decorator) {
                               return is_kernel_decorator(decorator_path(*decorator));
                           });
    });
}

/// The same question of a text that does not parse, line by line: the evaluator shall say what is
/// wrong with it.
bool seems_to_have_entry(const std::string& text) {
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        begin = end + 1;
        if (line.rfind("@", 0) == 0) {
            const auto stop = line.find_first_of("( \t#", 1);
            if (is_kernel_decorator(line.substr(1, stop - 1))) return true;
        } else if (line.rfind("def ", 0) == 0) {
            const auto name = line.find_first_not_of(" \t", 4);
            const auto stop = line.find_first_of("( \t", name);
            if (name != std::string::npos && stop != std::string::npos &&
                is_entry_name(line.substr(name, stop - name))) {
                return true;
            }
        }
    }
    return false;
}

std::optional<ExtractedKernel> as_kernel(const std::string& text, bool must_parse) {
    const auto module = nki::parse(text);
    ExtractedKernel kernel;
    kernel.source = text;
    if (module) {
        if (!has_entry(*module)) return std::nullopt;
        kernel.normalised_hash = nki::normalised_hash(*module);
        return kernel;
    }
    if (must_parse || !seems_to_have_entry(text)) return std::nullopt;
    return kernel;
}

Failure<std::string> nothing_found(const std::vector<Fence>& fences) {
    if (fences.empty()) {
        return {"the reply is neither a kernel nor does it hold a fenced block of code"};
    }
    if (!fences.back().closed) {
        return {
            fmt::format("the code fence opened in line {} is never closed: the reply is cut off",
                        fences.back().line)};
    }
    return {
        fmt::format("none of the {} fenced blocks defines a function kernel, optimized_kernel "
                    "or one decorated with nki.jit",
                    fences.size())};
}

/// The kernel that the reply's edits make of `parent`.
Result<ExtractedKernel, std::string> edited_kernel(const std::string& parent,
                                                   const std::vector<Edit>& edits) {
    auto text = apply_edits(parent, edits);
    if (!text.ok()) return Failure{text.error()};
    if (auto kernel = as_kernel(*text, false)) return std::move(*kernel);
    return Failure{std::string("the edits leave no kernel function")};
}

}  // namespace

Result<ExtractedKernel, std::string> extract_kernel(const std::string& reply,
                                                    const std::string& parent) {
    if (reply.find_first_not_of(" \t\r\n") == std::string::npos) {
        return Failure{std::string("the reply is empty")};
    }
    if (auto whole = as_kernel(reply, true)) return std::move(*whole);
    if (!parent.empty()) {
        const auto edits = find_edits(reply);
        if (!edits.empty()) return edited_kernel(parent, edits);
        if (has_open_edit(reply)) {
            return Failure{std::string("the last edit is not complete: the reply is cut off")};
        }
    }
    const auto fences = find_fences(reply);
    for (auto fence = fences.rbegin(); fence != fences.rend(); ++fence) {
        if (!fence->closed || !holds_python(*fence)) continue;
        if (auto kernel = as_kernel(fence->text, false)) return std::move(*kernel);
    }
    return nothing_found(fences);
}

}  // namespace accelopt::agents
