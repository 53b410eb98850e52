#include "unit/nki/trace_support.h"

#include <catch2/catch.hpp>

#include "nki/syntax/parser.h"

namespace accelopt::nki::test {

Result<Program, Finding> trace_file(std::string_view source, const std::vector<Argument>& arguments,
                                    const TraceOptions& options) {
    const auto module = parse(source);
    if (!module) {
        Finding finding;
        finding.outcome = "syntax_error";
        finding.message = module.error().message;
        finding.line = module.error().line;
        return Failure{finding};
    }
    return trace(*module, arguments, options);
}

Result<Program, Finding> trace_body(std::string_view body, const std::string& parameters,
                                    const std::vector<Argument>& arguments) {
    std::string source =
        "import math\n"
        "import numpy as np\n"
        "import neuronxcc.nki as nki\n"
        "import neuronxcc.nki.isa as nisa\n"
        "import neuronxcc.nki.language as nl\n"
        "import neuronxcc.nki.typing as nt\n"
        "@nki.jit\n"
        "def kernel(" +
        parameters + "):\n";
    std::size_t from = 0;
    while (from <= body.size()) {
        const std::size_t end = std::min(body.find('\n', from), body.size());
        source += "    " + std::string(body.substr(from, end - from)) + "\n";
        from = end + 1;
    }
    return trace_file(source, arguments);
}

Argument tensor(std::vector<std::int64_t> shape, DType dtype) {
    return TensorArgument{std::move(shape), dtype};
}

Program legal(std::string_view body, const std::string& parameters,
              const std::vector<Argument>& arguments) {
    auto result = trace_body(body, parameters, arguments);
    if (!result) {
        const Finding& finding = result.error();
        FAIL(finding.outcome << "/" << finding.code << " in line " << finding.line << ": "
                             << finding.message << "\n"
                             << body);
    }
    return std::move(result).value();
}

std::string verdict(std::string_view body, const std::string& parameters,
                    const std::vector<Argument>& arguments) {
    const auto result = trace_body(body, parameters, arguments);
    return result ? "ok" : result.error().outcome + "/" + result.error().code;
}

std::string opcodes(const Program& program) {
    std::string text;
    for (const Operation& operation : program.operations)
        text += (text.empty() ? "" : " ") + std::string(to_string(operation.opcode));
    return text;
}

std::string evaluates_to(const std::string& expression, const std::string& expected) {
    const auto result = trace_body("value = " + expression + "\n" + "assert value == " + expected +
                                   ", value\n" + "assert isinstance(value, int) == isinstance(" +
                                   expected + ", int), 'type'\n" + "return x");
    if (result) return "ok";
    // The kernel ends by returning its input, which is refused: reaching that means all held.
    if (result.error().code == "output_alias") return "ok";
    return result.error().code + ": " + result.error().message;
}

std::string text(const View& view) {
    std::string result = std::to_string(view.block) + "/" + std::to_string(view.offset) + " [";
    for (int d = 0; d < view.rank; ++d)
        result += (d > 0 ? " " : "") + std::to_string(view.dims[d].count) + ":" +
                  std::to_string(view.dims[d].stride);
    return result + "]";
}

}  // namespace accelopt::nki::test
