#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nki/interpreter.h"

namespace accelopt::cli {

/// A kernel argument given on the command line.
struct NamedArgument {
    std::string name;  ///< for messages and the seed of a tensor's values
    nki::Argument value;
};

/// Parses "x=float32[128,512]": a name, a dtype and the extents of a tensor ("[]" is refused: a
/// kernel argument has at least one dimension). Throws Error(kUser, "kernel_argument") that quotes
/// the text and says what was expected.
NamedArgument parse_tensor_argument(const std::string& text);

/// Parses "eps=1e-5": a name and a Python literal (number, string, bool, None, tuple of these).
/// Throws Error(kUser, "kernel_argument").
NamedArgument parse_literal_argument(const std::string& text);

/// Parses "x=float32[128,512]; eps=1e-5": tensors and literals, in positional order. Throws
/// Error(kUser, "kernel_argument"), also for a name given twice.
std::vector<NamedArgument> parse_argument_list(const std::string& text);

/// The options --entry, --grid, --input and --kwarg of a subcommand that takes any kernel.
class KernelArgumentOptions {
  public:
    /// Adds the three options; to be called once, and the object must outlive the parse.
    void add_to(CLI::App& command);

    /// True when any --input or --kwarg was given.
    bool given() const;
    std::optional<std::string> entry() const;
    /// The launch grid of --grid, empty without one. Throws Error(kUser, "kernel_argument").
    std::vector<std::int64_t> grid() const;
    /// The arguments in the order of the options, which is their positional order. Throws
    /// Error(kUser, "kernel_argument"), also for a name given twice.
    std::vector<NamedArgument> arguments() const;

    /// Lines for a subcommand's footer that explain the options by example.
    static std::string help();

  private:
    CLI::App* command_ = nullptr;
    CLI::Option* input_option_ = nullptr;
    CLI::Option* literal_option_ = nullptr;
    std::string entry_;
    std::string grid_;
    std::vector<std::string> inputs_;
    std::vector<std::string> literals_;
};

}  // namespace accelopt::cli
