#include "eval/calibration_input.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "eval/csv_rows.h"
#include "eval/reference/suite_reference.h"
#include "trainium/calibration.h"

namespace accelopt::eval {
namespace {

constexpr const char* kNameColumns[] = {"problem", "kernel", "case", "name"};
constexpr const char* kSourceMark = "# source: ";
/// Active times are fractions; the profiler's rounding may pass 1 a little.
constexpr double kLargestFraction = 1.05;

struct FractionColumn {
    const char* name;
    std::optional<double> protocol::Profile::*member;
};
constexpr FractionColumn kFractionColumns[] = {
    {"tensor_engine_active_time_percent", &protocol::Profile::tensor_engine_active_time_percent},
    {"scalar_engine_active_time_percent", &protocol::Profile::scalar_engine_active_time_percent},
    {"vector_engine_active_time_percent", &protocol::Profile::vector_engine_active_time_percent},
    {"gpsimd_engine_active_time_percent", &protocol::Profile::gpsimd_engine_active_time_percent},
    {"dma_active_time_percent", &protocol::Profile::dma_active_time_percent},
};

std::optional<double> number_of(const CsvTable& table, const CsvRow& row,
                                const std::string& column) {
    const std::string& text = row.get(column);
    if (text.empty()) return std::nullopt;
    double value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(value))
        table.fail(row.line, "'" + text + "' is not a number (" + column + ")");
    if (value < 0) table.fail(row.line, column + " is negative");
    return value;
}

protocol::Profile profile_of(const CsvTable& table, const CsvRow& row) {
    protocol::Profile profile;
    profile.latency = number_of(table, row, "latency_ms");
    if (!profile.latency || *profile.latency <= 0)
        table.fail(row.line,
                   "latency_ms must be there and above 0: a kernel without a measured "
                   "latency says nothing");
    for (const trainium::CounterField& counter : trainium::kCounterFields) {
        const std::string column(counter.name);
        const auto value = number_of(table, row, column);
        if (!value) continue;
        if (*value != std::floor(*value) || *value > 9e18)
            table.fail(row.line, column + " is not a whole number");
        profile.*counter.member = static_cast<std::int64_t>(*value);
    }
    for (const FractionColumn& fraction : kFractionColumns) {
        const auto value = number_of(table, row, fraction.name);
        if (value && *value > kLargestFraction)
            table.fail(row.line, std::string(fraction.name) +
                                     " is above 1: active times are fractions, not percents");
        profile.*fraction.member = value;
    }
    return profile;
}

/// Fills what both tables have; names are unique.
std::string name_of(const CsvTable& table, const CsvRow& row, const std::string& column,
                    std::set<std::string>& names) {
    const std::string& name = row.get(column);
    if (name.empty()) table.fail(row.line, "the " + column + " has no name");
    if (!names.insert(name).second)
        table.fail(row.line, "'" + name + "' is there twice: average repeated runs first");
    return name;
}

void require_column(const CsvTable& table, const std::string& column, const std::string& why) {
    const auto& columns = table.columns;
    if (std::find(columns.begin(), columns.end(), column) != columns.end()) return;
    const std::string near = nearest_word(column, columns);
    table.fail(1, "the header lacks '" + column + "' (" + why + ")" +
                      (near.empty() ? "" : "; is '" + near + "' meant?"));
}

/// The reason and message of a run that failed.
std::string complaint(const protocol::EvaluationReply& reply) {
    std::string text(to_string(reply.outcome));
    if (!reply.reason.empty()) text += "/" + reply.reason;
    if (reply.diagnostics.empty()) return text;
    const protocol::Diagnostic& first = reply.diagnostics.front();
    if (first.line > 0) text += " in line " + std::to_string(first.line);
    return text + ": " + first.message;
}

}  // namespace

std::vector<MeasuredKernel> read_measured_kernels(const std::string& path) {
    const CsvTable table = read_csv(path);
    std::string name_column;
    for (const char* column : kNameColumns) {
        const auto& columns = table.columns;
        if (std::find(columns.begin(), columns.end(), column) == columns.end()) continue;
        name_column = column;
        break;
    }
    if (name_column.empty())
        table.fail(1, "the header has no column 'problem', 'kernel' or 'case' with the name");
    require_column(table, "latency_ms", "milliseconds, as neuron-profile's total_time");
    std::vector<MeasuredKernel> kernels;
    std::set<std::string> names;
    for (const CsvRow& row : table.rows) {
        MeasuredKernel kernel;
        kernel.line = row.line;
        kernel.name = name_of(table, row, name_column, names);
        kernel.profile = profile_of(table, row);
        kernel.file = row.get("file");
        kernel.entry = row.get("entry");
        kernel.inputs = row.get("inputs");
        kernels.push_back(std::move(kernel));
    }
    return kernels;
}

std::vector<MicroKernel> read_micro_manifest(const std::string& folder) {
    const CsvTable table = read_csv((std::filesystem::path(folder) / "manifest.csv").string());
    for (const char* column : {"name", "file", "entry", "inputs", "isolates"})
        require_column(table, column, "a manifest has name, file, entry, inputs, isolates");
    std::vector<MicroKernel> kernels;
    std::set<std::string> names;
    for (const CsvRow& row : table.rows) {
        MicroKernel kernel;
        kernel.line = row.line;
        kernel.name = name_of(table, row, "name", names);
        kernel.path = (std::filesystem::path(folder) / row.get("file")).string();
        if (!std::filesystem::is_regular_file(kernel.path))
            table.fail(row.line, kernel.path + ": there is no such file");
        kernel.entry = row.get("entry");
        kernel.inputs = row.get("inputs");
        kernel.isolates = row.get("isolates");
        if (kernel.entry.empty() || kernel.inputs.empty() || kernel.isolates.empty())
            table.fail(row.line, "entry, inputs and isolates must not be empty");
        kernels.push_back(std::move(kernel));
    }
    return kernels;
}

Result<trainium::Stream, std::string> lower_kernel(const KernelUnderTest& kernel,
                                                   const trainium::Machine& machine) {
    protocol::EvaluationReply reply;
    KernelRun run(kernel, machine, reply);
    if (!run.check()) return Failure{complaint(reply)};
    return trainium::lower(run.program(), machine);
}

Result<trainium::Stream, std::string> lower_suite_kernel(const SuiteProblem& problem,
                                                         const trainium::Machine& machine) {
    for (const std::string& file : {problem.reference_path, problem.kernel_path}) {
        if (!std::filesystem::is_regular_file(file))
            return Failure{file + ": named by summary.json, but missing"};
    }
    auto reference = SuiteReference::open(problem.reference_path);
    if (!reference) return Failure{reference.error()};
    auto arguments = (*reference)->kernel_arguments();
    if (!arguments) return Failure{arguments.error()};
    KernelUnderTest kernel;
    kernel.source = read_file(problem.kernel_path);
    kernel.arguments = std::move(*arguments);
    return lower_kernel(kernel, machine);
}

std::vector<DescribedConstant> described_constants(const std::string& text) {
    std::vector<DescribedConstant> constants;
    int number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        const auto colon = line.find(':');
        if (line.empty() || line[0] == '#' || line[0] == ' ' || colon == std::string::npos)
            continue;
        DescribedConstant constant;
        constant.line = number;
        constant.key = line.substr(0, colon);
        const auto from = line.find_first_not_of(' ', colon + 1);
        if (from == std::string::npos) continue;
        constant.value = line.substr(from, line.find_first_of(" #", from) - from);
        if (const auto mark = line.find(kSourceMark); mark != std::string::npos)
            constant.source = line.substr(mark + std::string(kSourceMark).size());
        constants.push_back(std::move(constant));
    }
    return constants;
}

std::string with_changes(const std::string& text, const std::vector<ConstantChange>& changes) {
    const std::vector<DescribedConstant> constants = described_constants(text);
    std::vector<std::string> lines = split(text, '\n');
    for (const ConstantChange& change : changes) {
        const auto found =
            std::find_if(constants.begin(), constants.end(),
                         [&](const DescribedConstant& c) { return c.key == change.key; });
        require(found != constants.end() && found->is_fit(),
                "only fitted constants of the description can be changed");
        std::string line = change.key + ": " + change.value + " ";
        line.resize(std::max<std::size_t>(line.size(), 39), ' ');
        lines[static_cast<std::size_t>(found->line) - 1] = line + kSourceMark + change.source;
    }
    return join(lines, "\n");
}

}  // namespace accelopt::eval
