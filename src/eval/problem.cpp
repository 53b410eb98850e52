#include "eval/problem.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "config/reader.h"
#include "core/data_path.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "eval/expression.h"

namespace accelopt::eval {

namespace {

namespace fs = std::filesystem;

/// More elements than any machine of today holds: catches a misplaced factor early.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 36;

std::int64_t size_at(const config::Section& section, const std::string& key,
                     const std::string& text, const Sizes& sizes) {
    const auto value = evaluate_size(text, sizes);
    if (!value) section.fail(key, value.error());
    return *value;
}

double figure_at(const config::Section& section, const std::string& key, const Sizes& sizes) {
    const auto value = evaluate_figure(section.get_string(key), sizes);
    if (!value) section.fail(key, value.error());
    if (*value < 0) section.fail(key, "the figure is negative");
    return *value;
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
}

std::vector<std::int64_t> shape_at(const config::Section& section, const std::string& key,
                                   const Sizes& sizes) {
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    for (const std::string& text : section.string_list(key)) {
        const std::int64_t extent = size_at(section, key, text, sizes);
        if (extent < 1) {
            section.fail(key, "'" + text + "' is " + std::to_string(extent) +
                                  "; every extent must be positive");
        }
        if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements) {
            section.fail(key, "the tensor has more than 2**36 elements");
        }
        shape.push_back(extent);
    }
    if (shape.empty()) section.fail(key, "a tensor needs at least one dimension");
    return shape;
}

std::vector<std::int64_t> kernel_shape_at(const config::Section& section, const Sizes& sizes,
                                          const std::vector<std::int64_t>& shape) {
    if (!section.has("kernel_shape")) return shape;
    std::vector<std::int64_t> kernel_shape = shape_at(section, "kernel_shape", sizes);
    if (elements_of(kernel_shape) != elements_of(shape)) {
        section.fail("kernel_shape", "holds " + std::to_string(elements_of(kernel_shape)) +
                                         " elements, but shape holds " +
                                         std::to_string(elements_of(shape)));
    }
    return kernel_shape;
}

InputSpec read_input(const config::Section& section, const Sizes& sizes) {
    InputSpec input;
    input.name = section.get_string("name");
    if (section.has("value")) {
        input.tensor = false;
        input.scalar = section.get_double("value");
        return input;
    }
    input.shape = shape_at(section, "shape", sizes);
    input.kernel_shape = kernel_shape_at(section, sizes, input.shape);
    input.distribution = read_distribution(section, input.shape);
    return input;
}

OutputSpec read_output(const config::Section& section, const Sizes& sizes) {
    OutputSpec output;
    output.name = section.get_string("name");
    output.shape = shape_at(section, "shape", sizes);
    output.kernel_shape = kernel_shape_at(section, sizes, output.shape);
    return output;
}

Sizes read_sizes(const config::Section& section) {
    Sizes sizes;
    for (const std::string& key : section.keys()) {
        const std::int64_t value = section.get_int(key);
        if (value < 1) section.fail(key, "a size must be positive");
        sizes.emplace_back(key, value);
    }
    return sizes;
}

std::vector<std::string> names_of(const Sizes& sizes) {
    std::vector<std::string> names;
    for (const auto& [name, value] : sizes) names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
}

/// All shapes that a file declares, read whichever is asked for, so that a mistake in any shows at
/// once.
struct Shapes {
    Sizes full;
    Sizes test;
    std::vector<Sizes> further;
};

Shapes read_shapes(const config::Section& root) {
    Shapes shapes{read_sizes(root.child("shape")), read_sizes(root.child("test_shape")), {}};
    const auto check = [&](const char* key, const Sizes& sizes) {
        if (names_of(sizes) == names_of(shapes.full)) return;
        root.fail(key, "must name the same sizes as shape: " + join(names_of(shapes.full), ", "));
    };
    check("test_shape", shapes.test);
    for (const config::Section& section : root.children("shapes")) {
        shapes.further.push_back(read_sizes(section));
        check("shapes", shapes.further.back());
    }
    return shapes;
}

Sizes choose_sizes(const Shapes& shapes, const std::string& shape_name) {
    if (shape_name == "full") return shapes.full;
    if (shape_name == "test") return shapes.test;
    throw Error(ErrorSource::kUser, "unknown_shape",
                "a problem has the shapes 'full' and 'test', not '" + shape_name + "'");
}

std::string describe(const Sizes& sizes) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : sizes) parts.push_back(name + "=" + std::to_string(value));
    return join(parts, ", ");
}

double constant_at(const config::Section& section) {
    const double constant = section.get_double("constant");
    // Below 1 even the correctly rounded result could fail.
    if (!(constant >= 1 && constant <= 1e6)) section.fail("constant", "must be 1 to 1e6");
    return constant;
}

void read_reason(const config::Section& section, StressSet& set) {
    set.reason = section.string_or("reason", "value");
    const std::string term = "term:";
    if (set.reason.rfind(term, 0) == 0 && set.reason.size() > term.size()) return;
    section.require_one_of("reason", set.reason, {"value", "tail", "needle", "term:NAME"});
    if (set.reason == "term:NAME") section.fail("reason", "name the term");
}

/// Replaces the inputs that a stress set names.
void replace_inputs(const config::Section& section, StressSet& set) {
    std::vector<std::string> names;
    for (const InputSpec& input : set.inputs) names.push_back(input.name);
    for (const std::string& name : section.keys()) {
        const auto found = std::find(names.begin(), names.end(), name);
        if (found == names.end()) {
            const std::string near = nearest_word(name, names);
            section.fail(name, "the problem has no input of this name" +
                                   (near.empty() ? "" : "; did you mean '" + near + "'?"));
        }
        const auto index = static_cast<std::size_t>(found - names.begin());
        InputSpec& input = set.inputs[index];
        const config::Section how = section.child(name);
        if (input.tensor) {
            input.distribution = read_distribution(how, input.shape);
        } else {
            input.scalar = how.get_double("value");
        }
        set.replaced[index] = true;
    }
}

void read_stress(const config::Section& root, Problem& problem) {
    for (const config::Section& section : root.children("stress")) {
        StressSet set;
        set.name = section.get_string("name");
        const auto same = [&](const StressSet& other) { return other.name == set.name; };
        if (set.name.empty() || set.name == "nominal" ||
            std::any_of(problem.stress.begin(), problem.stress.end(), same)) {
            section.fail("name", "an input set needs a name of its own, not '" + set.name + "'");
        }
        read_reason(section, set);
        if (section.has("constant")) set.constant = constant_at(section);
        set.inputs = problem.inputs;
        set.replaced.assign(set.inputs.size(), false);
        const config::Section inputs = section.child("inputs");
        if (inputs.keys().empty()) section.fail("inputs", "replace at least one input");
        replace_inputs(inputs, set);
        problem.stress.push_back(std::move(set));
    }
}

bool is_path(const std::string& text) { return text.find('/') != std::string::npos; }

std::string problems_folder() { return data_root() + "/nkibench"; }

std::string find_folder(const std::string& id_or_path) {
    if (is_path(id_or_path)) {
        fs::path path(id_or_path);
        if (path.filename() == "problem.yaml") path = path.parent_path();
        if (!fs::exists(path / "problem.yaml")) {
            throw Error(ErrorSource::kUser, "unknown_problem",
                        "no problem.yaml in '" + path.string() + "'");
        }
        return path.string();
    }
    const std::vector<std::string> known = shipped_problems();
    if (std::find(known.begin(), known.end(), id_or_path) == known.end()) {
        const std::string near = nearest_word(id_or_path, known);
        throw Error(ErrorSource::kUser, "unknown_problem",
                    "unknown problem '" + id_or_path + "'" +
                        (near.empty() ? "" : "; did you mean '" + near + "'?") +
                        " (known: " + join(known, ", ") + ")");
    }
    return problems_folder() + "/" + id_or_path;
}

void read_tensors(const config::Section& root, Problem& problem) {
    for (const config::Section& section : root.children("inputs")) {
        problem.inputs.push_back(read_input(section, problem.sizes));
    }
    for (const config::Section& section : root.children("outputs")) {
        problem.outputs.push_back(read_output(section, problem.sizes));
    }
    const bool any_tensor = std::any_of(problem.inputs.begin(), problem.inputs.end(),
                                        [](const InputSpec& input) { return input.tensor; });
    if (!any_tensor) root.fail("inputs", "at least one tensor is needed");
    if (problem.outputs.empty()) root.fail("outputs", "at least one output is needed");
}

/// The axis that `blocks` names for a tensor, or nothing.
std::optional<int> block_axis(const config::Section& section, const std::string& name,
                              const std::vector<std::int64_t>& shape, ReferenceBlocks& blocks) {
    if (!section.has(name)) return std::nullopt;
    const std::int64_t axis = section.get_int(name);
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) {
        section.fail(name, "must be an axis of the tensor: 0 to " +
                               std::to_string(static_cast<int>(shape.size()) - 1));
    }
    blocks.units = std::gcd(blocks.units, shape[static_cast<std::size_t>(axis)]);
    return static_cast<int>(axis);
}

void read_blocks(const config::Section& root, Problem& problem) {
    if (!root.has("blocks")) return;
    const config::Section section = root.child("blocks");
    ReferenceBlocks blocks;
    blocks.units = 0;  // neutral for the greatest common divisor
    for (const InputSpec& input : problem.inputs) {
        if (!input.tensor && section.has(input.name)) section.fail(input.name, "is no tensor");
        blocks.inputs.push_back(block_axis(section, input.name, input.shape, blocks));
    }
    if (blocks.units == 0) root.fail("blocks", "must cut at least one input");
    for (const OutputSpec& output : problem.outputs) {
        const auto axis = block_axis(section, output.name, output.shape, blocks);
        if (!axis) root.fail("blocks", "must cut every output; '" + output.name + "' is missing");
        blocks.outputs.push_back(*axis);
    }
    section.finish();
    problem.blocks = std::move(blocks);
}

}  // namespace

bool StressSet::changes_scalars() const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (replaced.at(i) && !inputs[i].tensor) return true;
    }
    return false;
}

std::vector<nki::Argument> Problem::kernel_arguments() const {
    std::vector<nki::Argument> arguments;
    for (const InputSpec& input : inputs) {
        if (input.tensor) {
            arguments.emplace_back(nki::TensorArgument{input.kernel_shape, nki::DType::kFloat32});
        } else {
            arguments.emplace_back(input.scalar);
        }
    }
    return arguments;
}

namespace {

/// Reads a problem at the sizes that `choose` picks from the declared shapes.
template <typename Choose>
Problem load(const std::string& id_or_path, const std::string& shape_name, Choose choose) {
    const std::string folder = find_folder(id_or_path);
    const std::string file = folder + "/problem.yaml";
    const config::Section root = config::load_file(file);
    Problem problem;
    problem.folder = folder;
    problem.shape_name = shape_name;
    problem.id = root.get_string("id");
    problem.title = root.get_string("title");
    root.get_string("source");  // required: a problem says where it comes from
    problem.tolerance = root.get_double("tolerance");
    if (!(problem.tolerance > 0)) root.fail("tolerance", "must be positive");
    const Shapes shapes = read_shapes(root);
    problem.sizes = choose(shapes);
    problem.shapes = shapes.further;
    read_tensors(root, problem);
    read_blocks(root, problem);
    if (root.has("conditioned")) {
        problem.conditioned_constant = constant_at(root.child("conditioned"));
    }
    read_stress(root, problem);
    problem.vector_flops = figure_at(root, "vector_flops", problem.sizes);
    problem.matmul_flops = figure_at(root, "matmul_flops", problem.sizes);
    problem.minimal_bytes = figure_at(root, "minimal_bytes", problem.sizes);
    root.finish();

    problem.reference_path = folder + "/reference.py";
    problem.baseline_path = folder + "/baseline.py";
    problem.baseline_source = read_file(problem.baseline_path);
    problem.definition_sha256 =
        sha256_hex(sha256_hex(read_file(file)) + sha256_hex(read_file(problem.reference_path)));
    return problem;
}

}  // namespace

Problem load_problem(const std::string& id_or_path, const std::string& shape_name) {
    return load(id_or_path, shape_name,
                [&](const Shapes& shapes) { return choose_sizes(shapes, shape_name); });
}

Problem load_problem_at(const std::string& id_or_path, const Sizes& sizes) {
    return load(id_or_path, describe(sizes), [&](const Shapes& shapes) {
        if (names_of(sizes) != names_of(shapes.full)) {
            throw Error(ErrorSource::kUser, "unknown_shape",
                        "the problem's sizes are " + join(names_of(shapes.full), ", "));
        }
        return sizes;
    });
}

std::vector<std::string> shipped_problems() {
    std::vector<std::string> ids;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(problems_folder(), error)) {
        if (entry.path().filename() == "template") continue;  // there to be copied
        if (fs::exists(entry.path() / "problem.yaml")) ids.push_back(entry.path().filename());
    }
    if (error) {
        throw Error(ErrorSource::kConfig, "data_path",
                    "cannot list problems: " + error.message() + ": " + problems_folder());
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

}  // namespace accelopt::eval
