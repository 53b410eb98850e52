#include "eval/task_check.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "eval/reference/python_reference.h"
#include "eval/verifier.h"

namespace accelopt::eval {

namespace {

/// Input sets of a check are the same on every machine and in every run.
constexpr const char* kSecret = "accelopt task check";
constexpr const char* kTermPrefix = "without_";
/// For the references of a check, which nobody asks for again.
constexpr std::int64_t kReferenceBytes = 256 << 20;

using Arrays = std::vector<std::vector<float>>;  ///< one per output

struct TriedSet {
    InputSet set;
    double constant;
};

struct Attempt {
    bool passes;
    double error;  ///< infinite where it cannot be said
};

std::vector<TriedSet> sets_of(const Problem& problem) {
    const double constant = problem.conditioned_constant.value_or(0);
    std::vector<TriedSet> sets = {{nominal_set(problem, kSecret, 0), constant}};
    for (const StressSet& stress : problem.stress) {
        sets.push_back({stress_set(problem, kSecret, stress), stress.constant.value_or(constant)});
    }
    return sets;
}

class TaskCheck {
  public:
    explicit TaskCheck(const Problem& problem)
        : problem_(problem),
          store_("", kReferenceBytes),
          conditioned_(problem.conditioned_constant.has_value()) {
        report_.rule = conditioned_ ? "conditioned" : "published";
        report_.constant = problem.conditioned_constant.value_or(problem.tolerance);
    }

    TaskReport run() {
        const auto functions = reference_functions(problem_);
        if (!functions) return with_fault(functions.error());
        for (const std::string& name : *functions) {
            if (name.rfind(kTermPrefix, 0) == 0) terms_.push_back(name);
        }
        const auto sets = sets_of(problem_);
        for (const TriedSet& tried : sets) {
            report_.sets.push_back(tried.set.name);
            if (auto fault = try_set(tried)) return with_fault(tried.set.name + ": " + *fault);
        }
        for (TaskAnswer& answer : report_.answers) answer.as_it_should |= answer.honest;
        for (const std::string& name : failed_honest_) find(name, true).as_it_should = false;
        return std::move(report_);
    }

  private:
    TaskReport with_fault(const std::string& fault) {
        report_.fault = fault;
        return std::move(report_);
    }

    TaskAnswer& find(const std::string& name, bool honest) {
        for (TaskAnswer& answer : report_.answers) {
            if (answer.name == name) return answer;
        }
        report_.answers.push_back({name, honest, false, "", {}});
        return report_.answers.back();
    }

    Attempt attempt(const Reference& reference, const Arrays& outputs, double constant) const {
        Attempt result{true, 0};
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const ExpectedOutput expected = reference.output(i);
            const OutputVerdict verdict =
                conditioned_ ? verify_conditioned(outputs[i], expected, problem_.outputs[i].shape,
                                                  0, constant)
                             : verify_published(outputs[i], expected.value, 0, problem_.tolerance);
            const auto error = conditioned_ ? verdict.max_conditioned : verdict.rel_l2;
            const bool unknown = !error || verdict.reason == "nonfinite";
            result.passes = result.passes && verdict.ok;
            result.error =
                std::max(result.error, unknown ? std::numeric_limits<double>::infinity() : *error);
        }
        return result;
    }

    void record(const TriedSet& tried, const std::string& name, bool honest, const Arrays& outputs,
                const Reference& reference) {
        const Attempt result = attempt(reference, outputs, tried.constant);
        TaskAnswer& answer = find(name, honest);
        if (honest && !result.passes) failed_honest_.push_back(name);
        if (!honest && !result.passes) answer.as_it_should = true;
        if (!answer.error || result.error > *answer.error) {
            answer.error = result.error;
            answer.set = tried.set.name;
        }
    }

    /// Calls a function of reference.py; its outputs as float32.
    Result<Arrays, std::string> call(const TriedSet& tried, const Reference& reference,
                                     const std::string& function, Precision precision) const {
        std::vector<std::span<const float>> tensors;
        for (std::size_t i = 0; i < reference.inputs(); ++i) tensors.push_back(reference.input(i));
        Arrays outputs(problem_.outputs.size());
        auto fault =
            call_reference(problem_, function, precision, tried.set, tensors,
                           [&](std::size_t i, const ReferenceValues& values) {
                               outputs[i].assign(values.single.begin(), values.single.end());
                               for (const double value : values.wide) {
                                   outputs[i].push_back(static_cast<float>(value));
                               }
                           });
        if (fault) return Failure{function + "(): " + *fault};
        return outputs;
    }

    std::optional<std::string> try_set(const TriedSet& tried) {
        const auto kind = conditioned_ ? ReferenceKind::kConditioned : ReferenceKind::kPublished;
        const auto reference = store_.get(problem_, tried.set, kind);
        if (!reference) return reference.error();
        const auto single = call(tried, *reference, "forward", Precision::kFloat32);
        if (!single) return single.error();
        record(tried, "float32 reference", true, *single, *reference);
        try_plain_answers(tried, *reference);
        const auto rounded = call(tried, *reference, "forward", Precision::kRoundedBFloat16);
        if (!rounded) return rounded.error();
        record(tried, "bfloat16 inputs", false, *rounded, *reference);
        for (const std::string& term : terms_) {
            const auto without = call(tried, *reference, term, Precision::kFloat64);
            if (!without) return without.error();
            record(tried, "without " + term.substr(std::string(kTermPrefix).size()), false,
                   *without, *reference);
        }
        return std::nullopt;
    }

    void try_plain_answers(const TriedSet& tried, const Reference& reference) {
        Arrays zeros, means;
        for (std::size_t i = 0; i < problem_.outputs.size(); ++i) {
            const auto value = reference.output(i).value;
            double sum = 0;
            for (const float v : value) sum += std::isfinite(v) ? v : 0;
            zeros.emplace_back(value.size(), 0.0f);
            means.emplace_back(value.size(),
                               static_cast<float>(sum / static_cast<double>(value.size())));
        }
        record(tried, "zeros", false, zeros, reference);
        record(tried, "the mean", false, means, reference);
        std::size_t tensor = 0;
        for (const InputSpec& input : tried.set.inputs) {
            if (input.tensor) try_copies(tried, reference, input.name, reference.input(tensor++));
        }
    }

    void try_copies(const TriedSet& tried, const Reference& reference, const std::string& name,
                    std::span<const float> input) {
        Arrays tiled, stretched;
        for (std::size_t i = 0; i < problem_.outputs.size(); ++i) {
            const std::size_t size = reference.output(i).value.size();
            if (size % input.size() != 0) return;
            std::vector<float> a(size), b(size);
            for (std::size_t k = 0; k < size; ++k) {
                a[k] = input[k % input.size()];
                b[k] = input[k / (size / input.size())];
            }
            tiled.push_back(std::move(a));
            stretched.push_back(std::move(b));
        }
        const bool same = tiled == stretched;
        record(tried, "copy of " + name, false, tiled, reference);
        if (!same) record(tried, name + " stretched", false, stretched, reference);
    }

    const Problem& problem_;
    ReferenceStore store_;
    bool conditioned_;
    std::vector<std::string> terms_;
    std::vector<std::string> failed_honest_;
    TaskReport report_;
};

std::string file_of(const Problem& problem, const ReferenceStore& store) {
    std::string text = "accelopt task 1\n" + problem.definition_sha256 + reference_identity();
    for (const auto& [name, value] : problem.sizes) text += name + "=" + std::to_string(value);
    return store.directory() + "/" + sha256_hex(text).substr(0, 32) + ".task";
}

std::string to_text(const TaskReport& report) {
    std::string text = fmt::format("{}\t{}\t{}\n", report.rule, report.constant, report.fault);
    text += join(report.sets, "\t") + "\n";
    for (const TaskAnswer& a : report.answers) {
        text += fmt::format("{}\t{:d}\t{:d}\t{}\t{}\n", a.name, a.honest, a.as_it_should, a.set,
                            a.error.value_or(-1));
    }
    return text + "end\n";
}

/// nullopt for anything but a complete file.
std::optional<TaskReport> from_text(const std::string& text) {
    const std::vector<std::string> lines = split(text, '\n');
    if (lines.size() < 4 || lines[lines.size() - 2] != "end") return std::nullopt;
    const auto head = split(lines[0], '\t');
    if (head.size() != 3) return std::nullopt;
    TaskReport report;
    report.rule = head[0];
    report.constant = std::strtod(head[1].c_str(), nullptr);
    report.fault = head[2];
    report.sets = split(lines[1], '\t');
    for (std::size_t i = 2; i + 2 < lines.size(); ++i) {
        const auto cells = split(lines[i], '\t');
        if (cells.size() != 5) return std::nullopt;
        report.answers.push_back({cells[0], cells[1] == "1", cells[2] == "1", cells[3],
                                  std::strtod(cells[4].c_str(), nullptr)});
    }
    return report;
}

}  // namespace

bool TaskReport::ok() const { return complaint().empty(); }

std::string TaskReport::complaint() const {
    if (!fault.empty()) return fault;
    for (const TaskAnswer& answer : answers) {
        if (answer.as_it_should) continue;
        const std::string limit =
            fmt::format("{} {:g}", rule == "conditioned" ? "c =" : "tolerance", constant);
        if (answer.honest) {
            return fmt::format("the {} fails on input set '{}' with an error of {:.3g} ({})",
                               answer.name, answer.set, answer.error.value_or(0), limit);
        }
        return fmt::format(
            "the trivial answer '{}' passes on every input set ({}, largest error "
            "{:.3g})",
            answer.name, limit, answer.error.value_or(0));
    }
    return "";
}

TaskReport check_task(const Problem& problem, ReferenceStore& store) {
    if (store.directory().empty()) return TaskCheck(problem).run();
    const std::string file = file_of(problem, store);
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) {
        if (auto known = from_text(read_file(file))) return *known;
    }
    TaskReport report = TaskCheck(problem).run();
    // What a failing reference says may hold anything; it is cheap to hear again.
    if (report.fault.empty()) write_file_atomically(file, to_text(report));
    return report;
}

}  // namespace accelopt::eval
