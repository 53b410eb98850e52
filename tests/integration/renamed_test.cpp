// Nothing knows a problem: renamed and reformatted copies of the baselines get the same rewrites
// and the same predicted gains; at another shape they get the same rules.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "rewrite/rule.h"
#include "trainium/timing.h"

using namespace accelopt;
namespace fs = std::filesystem;

namespace {

/// Gives every name that a function binds a meaningless one.
class Renamer {
  public:
    void rename(nki::Module& module) {
        collect(module.body, false);
        apply(module.body);
    }

  private:
    void bind(const std::string& name) {
        if (!names_.contains(name)) {
            const std::string fresh = "q" + std::to_string(names_.size()) + "_";
            names_[name] = fresh;
        }
    }

    void collect_target(const nki::Expr& e) {
        if (e.kind == nki::ExprKind::kName) bind(e.text);
        if (e.kind == nki::ExprKind::kTuple || e.kind == nki::ExprKind::kList) {
            for (const auto& item : e.operands) collect_target(*item);
        }
    }

    void collect(const nki::Block& block, bool inside) {
        for (const auto& s : block) {
            if (s->kind == nki::StmtKind::kFunction) {
                bind(s->text);
                for (const auto& p : s->parameters) bind(p.name);
                collect(s->body, true);
                continue;
            }
            if (inside && (s->kind == nki::StmtKind::kAssign || s->kind == nki::StmtKind::kFor)) {
                for (const auto& t : s->targets) collect_target(*t);
            }
            collect(s->body, inside);
            collect(s->otherwise, inside);
        }
    }

    void apply(nki::ExprPtr& e) {
        if (!e) return;
        if (e->kind == nki::ExprKind::kName && names_.contains(e->text)) e->text = names_[e->text];
        for (auto& operand : e->operands) apply(operand);
        for (auto& keyword : e->keywords) apply(keyword.value);
    }

    void apply(nki::Block& block) {
        // Docstrings and other string statements go: the copy is reformatted as well.
        std::erase_if(block, [](const nki::StmtPtr& s) {
            return s->kind == nki::StmtKind::kExpression &&
                   s->value->kind == nki::ExprKind::kConstant;
        });
        for (auto& s : block) {
            if (s->kind == nki::StmtKind::kFunction) s->text = names_[s->text];
            for (auto& p : s->parameters) p.name = names_[p.name];
            for (auto& t : s->targets) apply(t);
            apply(s->value);
            apply(s->annotation);
            apply(s->body);
            apply(s->otherwise);
        }
    }

    std::map<std::string, std::string> names_;
};

struct Rewritten {
    std::string rule;
    std::map<std::string, std::int64_t> parameters;
    double latency_ms = 0;
    auto operator<=>(const Rewritten&) const = default;
};

double predict(const nki::Module& module, const eval::Problem& problem,
               const trainium::Machine& machine) {
    const auto program = nki::trace(module, problem.kernel_arguments(), {});
    if (!program.ok()) {
        FAIL(program.error().code + ": " + program.error().message + "\n" + nki::print(module));
    }
    return trainium::predict(*program, machine).compiled.latency.value();
}

std::vector<Rewritten> rewrites_of(const nki::Module& module, const eval::Problem& problem,
                                   const trainium::Machine& machine) {
    rewrite::Shapes shapes;
    for (const auto& input : problem.inputs) {
        if (input.tensor) shapes.push_back(input.kernel_shape);
    }
    std::vector<Rewritten> all;
    const rewrite::Subject subject{module, shapes};
    for (const auto& rule : rewrite::all_rules()) {
        for (const auto& site : rule->find(subject)) {
            auto changed = rule->apply(subject, site);
            REQUIRE(changed.ok());
            all.push_back({rule->name(), site.parameters, predict(*changed, problem, machine)});
        }
    }
    return all;
}

nki::Module parse_text(const std::string& text) {
    auto module = nki::parse(text);
    REQUIRE(module.ok());
    return std::move(module).value();
}

}  // namespace

TEST_CASE("renamed and reformatted baselines get the same rewrites and gains") {
    const auto machine = eval::load_machine("trn1");
    for (const auto& id : eval::shipped_problems()) {
        DYNAMIC_SECTION(id) {
            const auto problem = eval::load_problem(id, "full");
            const nki::Module original = parse_text(problem.baseline_source);
            nki::Module copy = nki::clone(original);
            Renamer().rename(copy);
            const std::string text = nki::print(copy);
            REQUIRE(text != nki::print(original));
            const nki::Module renamed = parse_text(text);
            CHECK(predict(renamed, problem, machine) == predict(original, problem, machine));
            const auto before = rewrites_of(original, problem, machine);
            const auto after = rewrites_of(renamed, problem, machine);
            // The large products and scans offer the rules nothing so far.
            const std::set<std::string> without = {"bmm_softmax", "gqa_full", "lora",
                                                   "mamba",       "matmul",   "transpose_matmul"};
            CHECK(before.empty() == without.contains(id));
            REQUIRE(after.size() == before.size());
            for (std::size_t i = 0; i < before.size(); ++i) {
                INFO(before[i].rule);
                CHECK(after[i].rule == before[i].rule);
                CHECK(after[i].parameters == before[i].parameters);
                CHECK(after[i].latency_ms == before[i].latency_ms);
            }
        }
    }
}

/// A copy of a problem's folder under another id and with another first size.
class ResizedCopy {
  public:
    explicit ResizedCopy(const std::string& id)
        : folder_(fs::temp_directory_path() /
                  ("accelopt-resized-" + std::to_string(getpid()) + "-" + id)) {
        fs::remove_all(folder_);
        fs::copy(fs::path(eval::load_problem(id, "full").folder), folder_);
        const std::string path = (folder_ / "problem.yaml").string();
        std::string text = read_file(path);
        const std::regex size(R"((\nshape: \{(?:B: \d+, )?(?:H|M|N|C): )(\d+))");
        std::smatch found;
        REQUIRE(std::regex_search(text, found, size));
        const auto doubled = std::to_string(std::stoll(found[2].str()) * 2);
        text = std::regex_replace(text, size, "$01" + doubled);
        text = std::regex_replace(text, std::regex("(^|\n)id: .*"), "$1id: stranger");
        write_file_atomically(path, text);
    }
    ~ResizedCopy() { fs::remove_all(folder_); }
    std::string path() const { return folder_.string(); }

  private:
    fs::path folder_;
};

TEST_CASE("under another id and at another size the same rewrites apply") {
    const auto machine = eval::load_machine("trn1");
    for (const auto& id : eval::shipped_problems()) {
        DYNAMIC_SECTION(id) {
            const auto full = eval::load_problem(id, "full");
            const ResizedCopy copy(id);
            const auto other = eval::load_problem(copy.path(), "full");
            REQUIRE(other.inputs[0].shape != full.inputs[0].shape);
            const nki::Module module = parse_text(full.baseline_source);
            const double before_ms = predict(module, full, machine);
            const double after_ms = predict(module, other, machine);
            const auto before = rewrites_of(module, full, machine);
            const auto after = rewrites_of(module, other, machine);
            REQUIRE(after.size() == before.size());
            for (std::size_t i = 0; i < before.size(); ++i) {
                INFO(before[i].rule);
                CHECK(after[i].rule == before[i].rule);
                CHECK(after[i].parameters == before[i].parameters);
                // Twice the rows: the same gain, but for start-up and tails.
                CHECK(after_ms / after[i].latency_ms ==
                      Approx(before_ms / before[i].latency_ms).epsilon(0.1));
            }
        }
    }
}
