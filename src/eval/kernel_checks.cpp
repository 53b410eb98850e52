#include "eval/kernel_checks.h"

#include <algorithm>

#include "core/text.h"

namespace accelopt::eval {

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::vector<std::string> parts;
    for (const std::int64_t extent : shape) parts.push_back(std::to_string(extent));
    return "(" + join(parts, ", ") + ")";
}

nki::Finding rejected(const std::string& code, const std::string& message) {
    nki::Finding finding;
    finding.outcome = "rejected";
    finding.code = code;
    finding.message = message;
    return finding;
}

std::optional<nki::Finding> check_output(const nki::Tensor& tensor, const OutputSpec& expected) {
    const auto reject = [&](const std::string& code, const std::string& message) {
        nki::Finding finding = rejected(code, message);
        finding.line = tensor.line;
        finding.shapes = {tensor.shape};
        return finding;
    };
    if (tensor.role == nki::TensorRole::kInput || tensor.role == nki::TensorRole::kConstant) {
        return reject("output_alias", "the kernel returns '" + tensor.name +
                                          "', which is not a tensor it computed");
    }
    if (tensor.is_mutable_parameter()) {
        return reject("output_alias", "the kernel returns its input '" + tensor.name +
                                          "', updated in place; the problem has no such output");
    }
    if (tensor.buffer != nki::Buffer::kHbm) {
        return reject("output_type", "output '" + expected.name + "' is an on-chip tile in " +
                                         std::string(to_string(tensor.buffer)) +
                                         "; a kernel returns HBM tensors");
    }
    if (tensor.shape != expected.kernel_shape && tensor.shape != expected.shape) {
        return reject("output_shape", "output '" + expected.name + "' must have shape " +
                                          shape_text(expected.kernel_shape) + ", not " +
                                          shape_text(tensor.shape));
    }
    if (tensor.dtype != nki::DType::kFloat32) {
        return reject("output_type", "output '" + expected.name + "' must be float32, not " +
                                         std::string(to_string(tensor.dtype)));
    }
    return std::nullopt;
}

}  // namespace

std::string source_line(const std::string& source, int line) {
    if (line < 1) return "";
    std::size_t begin = 0;
    for (int i = 1; i < line; ++i) {
        begin = source.find('\n', begin);
        if (begin == std::string::npos) return "";
        ++begin;
    }
    std::string text = source.substr(begin, source.find('\n', begin) - begin);
    if (!text.empty() && text.back() == '\r') text.pop_back();
    // A reply is no place for a megabyte of one line.
    constexpr std::size_t kLongest = 4000;
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
}

protocol::Diagnostic to_diagnostic(const nki::Finding& finding, const std::string& source) {
    protocol::Diagnostic diagnostic;
    diagnostic.code = finding.code;
    diagnostic.message = finding.message;
    diagnostic.line = finding.line;
    diagnostic.column = finding.column;
    diagnostic.snippet = source_line(source, finding.line);
    diagnostic.operation = finding.operation;
    diagnostic.shapes = finding.shapes;
    diagnostic.limit = finding.limit;
    diagnostic.remedy = finding.remedy;
    return diagnostic;
}

std::optional<nki::Finding> find_precision_ban(const std::string& source) {
    constexpr std::string_view kBanned = "float16";
    int line_number = 0;
    for (const std::string& line : split(source, '\n')) {
        ++line_number;
        const std::size_t at = line.substr(0, line.find('#')).find(kBanned);
        if (at == std::string::npos) continue;
        nki::Finding finding = rejected("precision_ban",
                                        "this benchmark is float32: the text 'float16' may not "
                                        "appear in a kernel");
        finding.line = line_number;
        finding.column = static_cast<int>(at) + 1;
        finding.remedy = "compute and store in float32";
        return finding;
    }
    return std::nullopt;
}

std::optional<nki::Finding> check_outputs(const nki::Program& program, const Problem& problem) {
    if (program.outputs.size() != problem.outputs.size()) {
        return rejected("output_shape",
                        "the kernel returns " + std::to_string(program.outputs.size()) +
                            " tensors, the problem has " + std::to_string(problem.outputs.size()));
    }
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
        const nki::TensorId id = program.outputs[i];
        const nki::Tensor& tensor = program.tensors.at(static_cast<std::size_t>(id));
        if (auto finding = check_output(tensor, problem.outputs[i])) return finding;
        if (std::count(program.outputs.begin(), program.outputs.end(), id) > 1) {
            return rejected("output_alias",
                            "the kernel returns '" + tensor.name + "' more than once");
        }
    }
    return std::nullopt;
}

}  // namespace accelopt::eval
