#include "cli/kernel_arguments.h"

#include <charconv>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "nki/syntax/parser.h"

namespace accelopt::cli {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 36;

[[noreturn]] void fail(const std::string& option, const std::string& text, const std::string& what,
                       const std::string& remedy) {
    throw Error(ErrorSource::kUser, "kernel_argument",
                option + " '" + text + "': " + what + "; " + remedy);
}

const std::vector<std::pair<std::string, nki::DType>>& dtypes() {
    using nki::DType;
    static const std::vector<std::pair<std::string, DType>> all = [] {
        std::vector<std::pair<std::string, DType>> made;
        for (const DType dtype :
             {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kTFloat32,
              DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8, DType::kInt16, DType::kInt32,
              DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kBool}) {
            made.emplace_back(std::string(to_string(dtype)), dtype);
        }
        return made;
    }();
    return all;
}

std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string::npos) return "";
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_identifier(const std::string& name) {
    const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
    if (name.empty() || !(letter(name[0]) || name[0] == '_')) return false;
    for (const char c : name) {
        if (!letter(c) && c != '_' && std::isdigit(static_cast<unsigned char>(c)) == 0)
            return false;
    }
    return true;
}

/// Splits "name=rest".
std::pair<std::string, std::string> split_name(const std::string& option, const std::string& text,
                                               const std::string& remedy) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos) fail(option, text, "there is no '='", remedy);
    const std::string name = trimmed(text.substr(0, at));
    if (!is_identifier(name)) fail(option, text, "'" + name + "' is no name", remedy);
    return {name, trimmed(text.substr(at + 1))};
}

const std::string kTensorRemedy = "write name=dtype[extent,...], e.g. x=float32[128,512]";
const std::string kLiteralRemedy =
    "write name=literal, a Python number, string, bool, None or tuple, e.g. eps=1e-5";

nki::DType parse_dtype(const std::string& text, const std::string& name) {
    std::vector<std::string> names;
    for (const auto& [spelling, dtype] : dtypes()) {
        if (spelling == name) return dtype;
        names.push_back(spelling);
    }
    const std::string near = nearest_word(name, names);
    fail("--input", text, "unknown dtype '" + name + "'",
         near.empty() ? "known: " + join(names, ", ") : "did you mean '" + near + "'?");
}

std::vector<std::int64_t> parse_extents(const std::string& text, const std::string& list) {
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    for (const std::string& part : split(list, ',')) {
        const std::string extent = trimmed(part);
        std::int64_t value = 0;
        const char* end = extent.data() + extent.size();
        const auto parsed = std::from_chars(extent.data(), end, value);
        if (extent.empty() || parsed.ec != std::errc{} || parsed.ptr != end || value < 1) {
            fail("--input", text, "extent '" + extent + "' is no positive whole number",
                 kTensorRemedy);
        }
        if (__builtin_mul_overflow(count, value, &count) || count > kMaxElements) {
            fail("--input", text, "the tensor has more than 2**36 elements", "make it smaller");
        }
        shape.push_back(value);
    }
    if (shape.empty()) fail("--input", text, "a tensor needs at least one extent", kTensorRemedy);
    return shape;
}

/// The value of an expression of constants; nullopt for anything else.
std::optional<nki::LiteralArgument> literal_of(const nki::Expr& expr) {
    nki::LiteralArgument out;
    if (expr.kind == nki::ExprKind::kConstant) {
        if (std::holds_alternative<nki::None>(expr.constant)) return out;
        if (const auto* flag = std::get_if<bool>(&expr.constant)) {
            out.value = *flag;
        } else if (const auto* integer = std::get_if<std::int64_t>(&expr.constant)) {
            out.value = *integer;
        } else if (const auto* number = std::get_if<double>(&expr.constant)) {
            out.value = *number;
        } else if (const auto* string = std::get_if<std::string>(&expr.constant)) {
            out.value = *string;
        } else {
            return std::nullopt;
        }
        return out;
    }
    if (expr.kind == nki::ExprKind::kTuple) {
        std::vector<nki::LiteralArgument> items;
        for (const auto& operand : expr.operands) {
            auto item = literal_of(*operand);
            if (!item) return std::nullopt;
            items.push_back(std::move(*item));
        }
        out.value = std::move(items);
        return out;
    }
    if (expr.kind == nki::ExprKind::kUnary && (expr.text == "-" || expr.text == "+")) {
        auto operand = literal_of(*expr.operands[0]);
        if (!operand) return std::nullopt;
        const bool negative = expr.text == "-";
        if (const auto* integer = std::get_if<std::int64_t>(&operand->value)) {
            out.value = negative ? -*integer : *integer;
        } else if (const auto* number = std::get_if<double>(&operand->value)) {
            out.value = negative ? -*number : *number;
        } else {
            return std::nullopt;
        }
        return out;
    }
    return std::nullopt;
}

nki::Argument to_argument(nki::LiteralArgument literal) {
    if (const auto* flag = std::get_if<bool>(&literal.value)) return *flag;
    if (const auto* integer = std::get_if<std::int64_t>(&literal.value)) return *integer;
    if (const auto* number = std::get_if<double>(&literal.value)) return *number;
    return literal;
}

}  // namespace

NamedArgument parse_tensor_argument(const std::string& text) {
    auto [name, type] = split_name("--input", text, kTensorRemedy);
    const std::size_t open = type.find('[');
    if (open == std::string::npos || type.back() != ']') {
        fail("--input", text, "the extents in brackets are missing", kTensorRemedy);
    }
    nki::TensorArgument tensor;
    tensor.dtype = parse_dtype(text, trimmed(type.substr(0, open)));
    tensor.shape = parse_extents(text, type.substr(open + 1, type.size() - open - 2));
    return {name, tensor};
}

NamedArgument parse_literal_argument(const std::string& text) {
    auto [name, literal] = split_name("--kwarg", text, kLiteralRemedy);
    const auto parsed = nki::parse("_ = (" + literal + "\n)\n");
    const bool single = parsed.ok() && parsed->body.size() == 1 &&
                        parsed->body[0]->kind == nki::StmtKind::kAssign && parsed->body[0]->value;
    auto value = single ? literal_of(*parsed->body[0]->value) : std::nullopt;
    // "()" would make a missing value an empty tuple.
    if (!value || literal.empty()) {
        fail("--kwarg", text, "'" + literal + "' is no Python literal",
             kLiteralRemedy + " or mode='fast' (quoted for the shell)");
    }
    return {name, to_argument(std::move(*value))};
}

std::vector<NamedArgument> parse_argument_list(const std::string& text) {
    std::vector<NamedArgument> arguments;
    std::set<std::string> names;
    for (const std::string& part : split(text, ';')) {
        const std::string argument = trimmed(part);
        const std::string value = trimmed(argument.substr(argument.find('=') + 1));
        // A tensor is a dtype with extents; a list literal starts with its bracket.
        const bool tensor = !value.empty() && value.back() == ']' && value.front() != '[';
        arguments.push_back(tensor ? parse_tensor_argument(argument)
                                   : parse_literal_argument(argument));
        if (!names.insert(arguments.back().name).second) {
            throw Error(ErrorSource::kUser, "kernel_argument",
                        "argument '" + arguments.back().name + "' is given twice");
        }
    }
    return arguments;
}

void KernelArgumentOptions::add_to(CLI::App& command) {
    command_ = &command;
    command.add_option("--entry", entry_, "kernel function (found by rule: the one with @nki.jit)");
    command.add_option("--grid", grid_, "launch grid of the kernel: sizes of its axes, as 2,4");
    input_option_ = command.add_option("--input", inputs_,
                                       "tensor argument name=dtype[extent,...]; repeatable");
    literal_option_ =
        command.add_option("--kwarg", literals_, "other argument name=literal; repeatable");
    // One text per option, so that a following positional argument is not swallowed.
    for (CLI::Option* option : {input_option_, literal_option_}) {
        option->expected(1)->allow_extra_args(false)->multi_option_policy(
            CLI::MultiOptionPolicy::TakeAll);
    }
}

bool KernelArgumentOptions::given() const { return !inputs_.empty() || !literals_.empty(); }

std::optional<std::string> KernelArgumentOptions::entry() const {
    return entry_.empty() ? std::nullopt : std::optional<std::string>(entry_);
}

std::vector<std::int64_t> KernelArgumentOptions::grid() const {
    return grid_.empty() ? std::vector<std::int64_t>{} : parse_extents(grid_, grid_);
}

std::vector<NamedArgument> KernelArgumentOptions::arguments() const {
    std::vector<NamedArgument> out;
    std::set<std::string> names;
    std::size_t input = 0, literal = 0;
    for (const CLI::Option* option : command_->parse_order()) {
        if (option == input_option_) {
            out.push_back(parse_tensor_argument(inputs_.at(input++)));
        } else if (option == literal_option_) {
            out.push_back(parse_literal_argument(literals_.at(literal++)));
        } else {
            continue;
        }
        if (!names.insert(out.back().name).second) {
            throw Error(ErrorSource::kUser, "kernel_argument",
                        "argument '" + out.back().name + "' is given twice");
        }
    }
    return out;
}

std::string KernelArgumentOptions::help() {
    return "Any kernel: name its arguments in the order of its parameters, tensors by --input and\n"
           "everything else by --kwarg. Quote them, since a shell reads brackets.\n"
           "  --input 'x=float32[4096,512]' --input 'w=bfloat16[512,512]' --kwarg eps=1e-5\n"
           "  --kwarg \"mode='fast'\" --kwarg 'tile=(128, 512)' --kwarg bias=None\n"
           "dtypes: float32 bfloat16 float16 tfloat32 float8_e4m3 float8_e5m2 int8 int16 int32\n"
           "uint8 uint16 uint32 bool.";
}

}  // namespace accelopt::cli
