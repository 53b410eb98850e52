#include <algorithm>
#include <catch2/catch.hpp>

#include "core/text.h"
#include "nki/api.h"
#include "nki/modules.h"
#include "trace_support.h"

namespace accelopt::nki::test {

TEST_CASE("api entries are sorted, unique and name their module", "[nki]") {
    const std::vector<std::string> names = api_entries();
    REQUIRE(names.size() > 80);
    CHECK(std::is_sorted(names.begin(), names.end()));
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
    CHECK(std::find(names.begin(), names.end(), "nisa.activation") != names.end());
    for (const std::string& name : names)
        CHECK((name.rfind("nl.", 0) == 0 || name.rfind("nisa.", 0) == 0 ||
               name.rfind("nki.", 0) == 0));
}

TEST_CASE("every api entry has a documented section and distinct parameters", "[nki]") {
    const interp::ApiTable& table = interp::nki1_api();
    for (int k = 0; k < static_cast<int>(table.entries().size()); ++k) {
        INFO(table[k].name);
        CHECK_FALSE(table[k].section.empty());
        const auto& parameters = table.parameters(k).list;
        for (std::size_t a = 0; a < parameters.size(); ++a)
            for (std::size_t b = a + 1; b < parameters.size(); ++b)
                CHECK(parameters[a].name != parameters[b].name);
    }
}

TEST_CASE("every documented name of NKI 1 is known", "[nki]") {
    const interp::ApiTable& table = interp::nki1_api();
    const std::string list =
        read_file(std::string(ACCELOPT_SOURCE_DIR) + "/tests/golden/nki/api_nki1.txt");
    int count = 0;
    for (const std::string& name : split(list, '\n')) {
        if (name.empty()) continue;
        ++count;
        INFO(name);
        if (table.find(name) >= 0) continue;
        const std::size_t dot = name.find('.');
        const std::string module = name.substr(0, dot);
        std::string rest = name.substr(dot + 1);
        interp::ModuleId id = module == "nl"     ? interp::ModuleId::kLanguage
                              : module == "nisa" ? interp::ModuleId::kIsa
                                                 : interp::ModuleId::kNki;
        if (rest.starts_with("compiler.")) {
            rest = rest.substr(9);
            id = interp::ModuleId::kCompiler;
        }
        CHECK(interp::module_attribute(table, id, rest).has_value());
    }
    CHECK(count > 180);
}

TEST_CASE("the api list names functions with their parameters, the page their rules", "[nki]") {
    const std::string list = api_list();
    CHECK(list.find("nl.load(src, *, mask=..., dtype=...)") != std::string::npos);
    CHECK(list.find("nisa.builtin_custom_op") == std::string::npos);
    // Functions with the same parameters share a line, and every function has one.
    CHECK(list.find("nl.exp, nl.log, ") != std::string::npos);
    for (const std::string& name : api_entries()) {
        INFO(name);
        CHECK((list.find(" " + name + "(") != std::string::npos ||
               list.find(" " + name + ",") != std::string::npos));
    }
    const std::string page = api_page();
    CHECK(page.find("# Functions of NKI 1") == 0);
    CHECK(page.find(
              "| `nisa.bn_stats(data, *, mask=..., dtype=...)` | vector | [P, 6] | of data |") !=
          std::string::npos);
    CHECK(page.find("`nisa.builtin_custom_op") != std::string::npos);
}

TEST_CASE("a second table can be traced with", "[nki]") {
    const interp::ApiTable& first = interp::nki1_api();
    std::vector<interp::ApiEntry> entries = first.entries();
    for (interp::ApiEntry& entry : entries)
        if (entry.name == "nl.exp") entry.handler = nullptr;
    const interp::ApiTable second("NKI without exp", std::move(entries));
    TraceOptions options;
    options.api = &second;
    const auto result = trace_file(
        "import neuronxcc.nki.language as nl\n"
        "def kernel(x):\n    y = nl.exp(nl.load(x))\n    return y\n",
        {tensor({4, 4})}, options);
    REQUIRE_FALSE(result);
    CHECK(result.error().message == "nl.exp is not supported");
}

TEST_CASE("an unknown api name suggests the nearest one", "[nki]") {
    const auto result = trace_body("return nl.sigmiod(nl.load(x))");
    REQUIRE_FALSE(result);
    CHECK(result.error().code == "unknown_api");
    CHECK(result.error().message.find("did you mean 'sigmoid'") != std::string::npos);
}

TEST_CASE("a documented api without an implementation is unsupported, not unknown", "[nki]") {
    const auto result = trace_body("return nl.nc(2)");
    REQUIRE_FALSE(result);
    CHECK(result.error().outcome == "unsupported");
    CHECK(result.error().message.find("nl.nc is not supported") != std::string::npos);
}

TEST_CASE("argument binding follows the parameter table", "[nki]") {
    const auto message = [](const char* call) {
        const auto result = trace_body(std::string("tile = nl.load(x)\n") + call + "\nreturn x");
        REQUIRE_FALSE(result);
        return result.error().code + ": " + result.error().message;
    };
    CHECK(message("nl.exp(tile, msk=None)") ==
          "type_error: nl.exp() got an unexpected keyword argument 'msk', did you mean 'mask'?");
    CHECK(message("nl.exp()") == "type_error: nl.exp() is missing the argument 'x'");
    CHECK(message("nl.exp(tile, None)") ==
          "type_error: nl.exp() takes 1 positional arguments, got 2");
    CHECK(message("nl.exp(tile, x=tile)") ==
          "type_error: nl.exp() got multiple values for argument 'x'");
    CHECK(message("nl.exp(3)") == "type_error: argument 'x' of nl.exp must be a tile, not 3");
    CHECK(message("nisa.tensor_tensor(tile, tile, 5)") ==
          "type_error: argument 'op' of nisa.tensor_tensor must be an ALU operator such as nl.add, "
          "not 5");
    CHECK(message("nisa.tensor_scalar(tile, nl.add, 1.0, op1=nl.add)") ==
          "type_error: op1 and operand1 must be given together");
}

TEST_CASE("arguments can be spread from sequences and dicts", "[nki]") {
    CHECK(opcodes(legal("y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
                        "args = (nl.load(x), 2.0)\n"
                        "options = {'dtype': nl.float32}\n"
                        "nl.store(y, nl.multiply(*args, **options))\n"
                        "return y")) == "load tensor_scalar store");
}

TEST_CASE("a finding names the operation, its shapes and its limit", "[nki]") {
    const auto result =
        trace_body("a = nl.load(x)\nreturn nisa.nc_matmul(a, a)", "x", {tensor({128, 256})});
    REQUIRE_FALSE(result);
    const Finding& finding = result.error();
    CHECK(finding.code == "size_of_dimension_exceed_arch_limit");
    CHECK(finding.operation == "nisa.nc_matmul");
    CHECK(finding.line == kBodyLine + 1);
    CHECK(finding.column == 12);
    CHECK(finding.limit == 128);
    CHECK(finding.shapes == std::vector<std::vector<std::int64_t>>{{128, 256}, {128, 256}});
    CHECK_FALSE(finding.remedy.empty());
}

}  // namespace accelopt::nki::test
