#include "kernels.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "rewrite/build.h"
#include "rewrite/kernel.h"
#include "rewrite/walk.h"

namespace accelopt::rewrite {

std::string with_imports(const std::string& function) {
    return "import numpy as np\n"
           "import neuronxcc.nki as nki\n"
           "import neuronxcc.nki.isa as nisa\n"
           "import neuronxcc.nki.language as nl\n\n\n"
           "@nki.jit\n" +
           function;
}

namespace {

nki::Module parsed(const std::string& source) {
    auto module = nki::parse(source);
    INFO(source);
    REQUIRE(module.ok());
    return std::move(*module);
}

}  // namespace

std::vector<Site> sites_of(const Rule& rule, const std::string& source, const Shapes& shapes) {
    const nki::Module module = parsed(source);
    return rule.find({module, shapes});
}

std::string rewritten_at(const Rule& rule, const std::string& source, const Shapes& shapes,
                         const Site& site) {
    const nki::Module module = parsed(source);
    auto result = rule.apply({module, shapes}, site);
    INFO((result ? std::string() : result.error()));
    REQUIRE(result.ok());
    const std::string text = nki::print(*result);
    check_kernel(text, shapes);
    return text;
}

std::string rewritten(const Rule& rule, const std::string& source, const Shapes& shapes) {
    check_kernel(source, shapes);
    const auto sites = sites_of(rule, source, shapes);
    REQUIRE(sites.size() == 1);
    return rewritten_at(rule, source, shapes, sites[0]);
}

std::string trace_failure(const std::string& source, const Shapes& shapes) {
    auto kernel = Kernel::open(parsed(source), shapes);
    REQUIRE(kernel.has_value());
    std::vector<nki::Argument> arguments;
    std::size_t tensor = 0;
    for (const auto& parameter : kernel->function().parameters) {
        // Scalar arguments of the kernels here are called eps, renamed or not.
        const auto shape = kernel->shape(*make_name(parameter.name));
        if (shape) {
            nki::TensorArgument argument;
            argument.shape = *shape;
            arguments.emplace_back(std::move(argument));
            ++tensor;
        } else {
            arguments.emplace_back(1e-5);
        }
    }
    REQUIRE(tensor == shapes.size());
    const auto program = nki::trace(kernel->take(), arguments, {});
    if (program) return "";
    return "line " + std::to_string(program.error().line) + ": " + program.error().message;
}

void check_kernel(const std::string& source, const Shapes& shapes) {
    const nki::Module module = parsed(source);
    INFO(source);
    CHECK(nki::print(parsed(nki::print(module))) == nki::print(module));
    CHECK(trace_failure(source, shapes) == "");
}

std::string renamed(const std::string& source) {
    auto kernel = Kernel::open(parsed(source), {});
    REQUIRE(kernel.has_value());
    std::set<std::string> names;
    for (const auto& parameter : kernel->function().parameters) names.insert(parameter.name);
    visit(kernel->body(), [&](const nki::Expr& node) {
        if (node.kind == nki::ExprKind::kName && kernel->binding(node.text))
            names.insert(node.text);
        return true;
    });
    std::map<std::string, std::string> fresh;
    for (const std::string& name : names) {
        fresh[name] = "q" + std::to_string(fresh.size()) + "_" + name.substr(0, 1);
    }
    for (auto& parameter : kernel->function().parameters) parameter.name = fresh[parameter.name];
    visit_slots(kernel->body(), [&](nki::ExprPtr& node) {
        const auto entry = fresh.find(node->text);
        if (node->kind == nki::ExprKind::kName && entry != fresh.end()) node->text = entry->second;
        return true;
    });
    kernel->refresh();
    return nki::print(kernel->take());
}

std::string without_named_constants(const std::string& source) {
    auto kernel = Kernel::open(parsed(source), {});
    REQUIRE(kernel.has_value());
    std::map<std::string, std::int64_t> values;
    for (const Place& place : places(kernel->body())) {
        const nki::Stmt& stmt = *place.stmt;
        if (stmt.kind != nki::StmtKind::kAssign || stmt.targets[0]->kind != nki::ExprKind::kName) {
            continue;
        }
        const auto value = kernel->integer(*stmt.value);
        if (value && kernel->integer(*stmt.targets[0])) values[stmt.targets[0]->text] = *value;
    }
    for (const Place& place : places(kernel->body())) {
        if (!place.stmt->value) continue;
        for (const auto& [name, value] : values) {
            substitute(place.stmt->value, name, *make_integer(value));
        }
        for (auto& target : place.stmt->targets) {
            if (target->kind != nki::ExprKind::kSubscript) continue;
            for (const auto& [name, value] : values) {
                substitute(target, name, *make_integer(value));
            }
        }
    }
    kernel->refresh();
    return nki::print(kernel->take());
}

std::string read_source(const std::string& path) {
    std::ifstream file(std::string(ACCELOPT_SOURCE_DIR) + "/" + path);
    INFO(path);
    REQUIRE(file.good());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

const std::vector<Baseline>& baselines() {
    static const std::vector<Baseline> kBaselines = {
        {"silu", {{128, 32, 7168}}},
        {"rope_single_freq_apply", {{128, 262144}, {64, 262144}, {64, 262144}}},
        {"adamw", {{10944, 2048}, {10944, 2048}, {10944, 2048}, {10944, 2048}}},
        {"rmsnorm_matmul", {{32, 128, 1024}, {8, 128, 2048}}},
        {"add_rmsnorm_matmul", {{4096, 1024}, {1024, 2048}, {4096, 1024}, {1024}}}};
    return kBaselines;
}

}  // namespace accelopt::rewrite
