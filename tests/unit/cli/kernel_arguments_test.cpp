#include "cli/kernel_arguments.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using namespace accelopt;
using cli::NamedArgument;
using nki::DType;
using nki::LiteralArgument;

namespace {

const nki::TensorArgument& tensor(const NamedArgument& argument) {
    return std::get<nki::TensorArgument>(argument.value);
}

template <typename F>
std::string fault(F action) {
    try {
        action();
    } catch (const Error& error) {
        CHECK(error.source() == ErrorSource::kUser);
        return error.what();
    }
    return "";
}

/// Parses a command line of a subcommand that has the options beside a positional argument.
std::vector<NamedArgument> parse(std::vector<std::string> words) {
    CLI::App app;
    CLI::App* command = app.add_subcommand("profile");
    std::string kernel;
    command->add_option("kernel", kernel)->required();
    cli::KernelArgumentOptions options;
    options.add_to(*command);
    words.insert(words.begin(), "profile");
    std::reverse(words.begin(), words.end());
    app.parse(words);
    CHECK(kernel == "k.py");
    return options.arguments();
}

}  // namespace

TEST_CASE("a tensor argument has a name, a dtype and extents") {
    const NamedArgument x = cli::parse_tensor_argument("x=float32[128,512]");
    CHECK(x.name == "x");
    CHECK(tensor(x).dtype == DType::kFloat32);
    CHECK(tensor(x).shape == std::vector<std::int64_t>{128, 512});
    CHECK(tensor(cli::parse_tensor_argument(" w = bfloat16[ 4 , 5 ] ")).dtype == DType::kBFloat16);
    CHECK(tensor(cli::parse_tensor_argument("i=int32[7]")).dtype == DType::kInt32);
    CHECK(tensor(cli::parse_tensor_argument("f=float8_e4m3[7]")).dtype == DType::kFloat8E4M3);
}

TEST_CASE("every dtype that a kernel may have can be named") {
    for (const char* name :
         {"float32", "bfloat16", "float16", "tfloat32", "float8_e4m3", "float8_e5m2", "int8",
          "int16", "int32", "uint8", "uint16", "uint32"}) {
        const NamedArgument made = cli::parse_tensor_argument(std::string("x=") + name + "[2]");
        CHECK(to_string(tensor(made).dtype) == name);
    }
}

TEST_CASE("a malformed tensor argument is quoted with what was expected") {
    const std::pair<const char*, const char*> cases[] = {
        {"x", "no '='"},
        {"=float32[2]", "no name"},
        {"2x=float32[2]", "no name"},
        {"x=float32", "brackets"},
        {"x=float32[2", "brackets"},
        {"x=flaot32[2]", "did you mean 'float32'"},
        {"x=complex[2]", "known: float32"},
        {"x=float32[]", "at least one extent"},
        {"x=float32[2,]", "extent ''"},
        {"x=float32[0]", "extent '0'"},
        {"x=float32[-3]", "extent '-3'"},
        {"x=float32[2.5]", "extent '2.5'"},
        {"x=float32[99999999999999999999]", "positive whole number"},
        {"x=float32[1000000,1000000]", "2**36"},
    };
    for (const auto& [text, expected] : cases) {
        const std::string message = fault([&] { cli::parse_tensor_argument(text); });
        INFO(text << ": " << message);
        CHECK(message.find(expected) != std::string::npos);
        CHECK(message.find(std::string("'") + text + "'") != std::string::npos);
    }
}

TEST_CASE("a literal argument is a Python literal") {
    CHECK(std::get<double>(cli::parse_literal_argument("eps=1e-5").value) == 1e-5);
    CHECK(std::get<double>(cli::parse_literal_argument("a=-2.5").value) == -2.5);
    CHECK(std::get<std::int64_t>(cli::parse_literal_argument("n=-3").value) == -3);
    CHECK(std::get<std::int64_t>(cli::parse_literal_argument("n=0x10").value) == 16);
    CHECK(std::get<bool>(cli::parse_literal_argument("causal=True").value));
    const auto none = std::get<LiteralArgument>(cli::parse_literal_argument("bias=None").value);
    CHECK(std::holds_alternative<std::monostate>(none.value));
    const auto text = std::get<LiteralArgument>(cli::parse_literal_argument("mode='a=b'").value);
    CHECK(std::get<std::string>(text.value) == "a=b");
    const auto tuple = std::get<LiteralArgument>(cli::parse_literal_argument("t=(1, 2.0)").value);
    const auto& items = std::get<std::vector<LiteralArgument>>(tuple.value);
    REQUIRE(items.size() == 2);
    CHECK(std::get<std::int64_t>(items[0].value) == 1);
    CHECK(std::get<double>(items[1].value) == 2.0);
}

TEST_CASE("what is no literal is refused") {
    for (const char* text :
         {"a", "a=", "a=b", "a=f(1)", "a=1+2", "a=[1]", "a={}", "a=1;b=2", "a=(1", "a=...",
          "a=not True", "a=-None", "a=-'x'", "a=1)\nimport os\n(", "a=x if y else z",
          "a=99999999999999999999999", "a=1j"}) {
        const std::string message = fault([&] { cli::parse_literal_argument(text); });
        INFO(text);
        CHECK(message.find("--kwarg") != std::string::npos);
    }
}

TEST_CASE("arguments keep the order of their options") {
    const auto all = parse({"k.py", "--input", "x=float32[2]", "--kwarg", "eps=1e-5", "--input",
                            "z=float32[3]", "--kwarg=flag=True"});
    REQUIRE(all.size() == 4);
    CHECK(all[0].name == "x");
    CHECK(all[1].name == "eps");
    CHECK(all[2].name == "z");
    CHECK(all[3].name == "flag");
    // An option takes one text: what follows is the kernel.
    CHECK(parse({"--input", "x=float32[2]", "k.py"}).size() == 1);
}

TEST_CASE("a name given twice is refused") {
    const std::string message = fault([] {
        parse({"k.py", "--input", "x=float32[2]", "--kwarg", "x=1"});
    });
    CHECK(message.find("'x' is given twice") != std::string::npos);
}

TEST_CASE("a list of arguments is tensors and literals in order") {
    const auto all = cli::parse_argument_list(" x=float32[128,8]; width=64 ;tile=(1, 2)");
    REQUIRE(all.size() == 3);
    CHECK(std::get<nki::TensorArgument>(all[0].value).shape == std::vector<std::int64_t>{128, 8});
    CHECK(all[1].name == "width");
    CHECK(std::get<std::int64_t>(all[1].value) == 64);
    CHECK(all[2].name == "tile");
    CHECK(fault([] { cli::parse_argument_list("x=float32[2]; x=1"); }).find("given twice") !=
          std::string::npos);
    CHECK(fault([] { cli::parse_argument_list("x=float33[2]"); }).find("float33") !=
          std::string::npos);
    CHECK(cli::parse_argument_list("").empty());  // a kernel may have no parameters
    CHECK(fault([] { cli::parse_argument_list("x=float32[2];"); }).find("--kwarg") !=
          std::string::npos);
}
