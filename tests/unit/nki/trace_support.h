#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nki/interpreter.h"

namespace accelopt::nki::test {

/// Parses and traces a whole file.
Result<Program, Finding> trace_file(std::string_view source, const std::vector<Argument>& arguments,
                                    const TraceOptions& options = {});

/// Traces `body` (lines, not indented) as the body of a kernel with the usual imports. Every tensor
/// argument is float32. The first line of the body is line kBodyLine.
Result<Program, Finding> trace_body(std::string_view body, const std::string& parameters = "x",
                                    const std::vector<Argument>& arguments = {
                                        TensorArgument{{128, 512}, DType::kFloat32}});
inline constexpr int kBodyLine = 9;

/// A float32 tensor argument.
Argument tensor(std::vector<std::int64_t> shape, DType dtype = DType::kFloat32);

/// Traces a body that must be legal; fails the test with the finding otherwise.
Program legal(std::string_view body, const std::string& parameters = "x",
              const std::vector<Argument>& arguments = {
                  TensorArgument{{128, 512}, DType::kFloat32}});

/// "outcome/code" of a body, or "ok".
std::string verdict(std::string_view body, const std::string& parameters = "x",
                    const std::vector<Argument>& arguments = {
                        TensorArgument{{128, 512}, DType::kFloat32}});

/// The opcodes of a program, in order, as text: "load activation store".
std::string opcodes(const Program& program);

/// The value of a Python expression of numbers: the body computes it, the trace asserts it.
std::string evaluates_to(const std::string& expression, const std::string& expected);

/// A view as "block/offset [count:stride count:stride]".
std::string text(const View& view);

}  // namespace accelopt::nki::test
