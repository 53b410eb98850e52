// pybind11 includes Python.h, which comes first, as its manual asks.
#include "eval/reference/python_reference.h"

#include <pybind11/embed.h>
#include <pybind11/numpy.h>

#include <cstring>
#include <new>

#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "eval/reference/blas.h"
#include "eval/reference/input_drawing.h"
#include "nki/syntax/python_runtime.h"

namespace accelopt::eval {

namespace {

namespace py = pybind11;
using py::literals::operator""_a;

py::module_ load_numpy() {
    py::module_ numpy = py::module_::import("numpy");
    static const bool quiet = [&] {
        // exp of a large argument may overflow on the way to a right result (SiLU).
        numpy.attr("seterr")("all"_a = "ignore");
        return true;
    }();
    (void)quiet;
    return numpy;
}

/// Chooses BLAS and starts Python; the order matters, numpy loads BLAS for good.
void start() {
    choose_blas();
    nki::start_python();
}

/// "file.py:12: ValueError: message" of a Python exception.
std::string last_line(py::error_already_set& error) {
    std::string place;
    for (py::object trace = error.trace(); trace && !trace.is_none();
         trace = trace.attr("tb_next")) {
        const auto code = trace.attr("tb_frame").attr("f_code");
        const std::string file = py::str(code.attr("co_filename"));
        place = file.substr(file.rfind('/') + 1) + ":" +
                std::string(py::str(trace.attr("tb_lineno"))) + ": ";
    }
    const std::string type = py::str(error.type().attr("__name__"));
    return place + type + ": " + std::string(py::str(error.value()));
}

py::array wrap(std::span<float> memory, const std::vector<std::int64_t>& shape) {
    // A capsule as base makes numpy use the memory in place.
    const py::capsule base(memory.data(), [](void*) {});
    return py::array_t<float>(std::vector<py::ssize_t>(shape.begin(), shape.end()), memory.data(),
                              base);
}

/// The drawing routine of input_drawing.py.
py::object drawing() {
    const py::module_ builtins = py::module_::import("builtins");
    py::dict scope;
    scope["__builtins__"] = builtins;
    builtins.attr("exec")(builtins.attr("compile")(kInputDrawing, "input_drawing.py", "exec"),
                          scope);
    return scope["draw"];
}

py::dict parameters_of(const Distribution& d) {
    return py::dict("kind"_a = d.kind, "axis"_a = d.axis, "at"_a = d.at, "low"_a = d.low,
                    "high"_a = d.high, "value"_a = d.value, "deviation"_a = d.deviation,
                    "start"_a = d.from, "end"_a = d.to, "background"_a = d.background,
                    "base"_a = d.base, "scale"_a = d.scale);
}

py::tuple make_inputs(const py::module_& numpy, const Problem& problem, const std::string& seed_hex,
                      const std::vector<std::span<float>>& memory) {
    const py::object seed = py::module_::import("builtins").attr("int")(seed_hex, 16);
    const py::object random = numpy.attr("random");
    const py::object generator = random.attr("Generator")(random.attr("PCG64")(seed));
    const py::object draw = drawing();
    py::tuple arguments(problem.inputs.size());
    std::size_t tensor = 0;
    for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
        const InputSpec& input = problem.inputs[i];
        if (!input.tensor) {
            arguments[i] = py::float_(input.scalar);
            continue;
        }
        py::array array = wrap(memory.at(tensor++), input.shape);
        draw(generator, array, **parameters_of(input.distribution));
        array.attr("flags").attr("writeable") = false;
        arguments[i] = array;
    }
    return arguments;
}

py::object run_forward(const Problem& problem, const py::tuple& arguments) {
    const py::module_ builtins = py::module_::import("builtins");
    py::dict scope;
    scope["__builtins__"] = builtins;
    scope["__name__"] = "reference";
    const py::object code =
        builtins.attr("compile")(read_file(problem.reference_path), problem.reference_path, "exec");
    builtins.attr("exec")(code, scope);
    if (!scope.contains("forward")) throw py::key_error("the file defines no forward()");
    return scope["forward"](*arguments);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::vector<std::string> parts;
    for (const std::int64_t extent : shape) parts.push_back(std::to_string(extent));
    return "(" + join(parts, ", ") + ")";
}

/// Copies one result into its place; an error sentence when it is not what the problem declares.
std::optional<std::string> take_output(const py::module_& numpy, const OutputSpec& output,
                                       const py::object& value, std::span<float> memory) {
    const py::array array = numpy.attr("ascontiguousarray")(value);
    const std::string dtype = py::str(array.dtype());
    if (dtype != "float32") {
        return "output '" + output.name + "' has dtype " + dtype + ", expected float32";
    }
    const std::vector<std::int64_t> shape(array.shape(), array.shape() + array.ndim());
    if (shape != output.shape) {
        return "output '" + output.name + "' has shape " + shape_text(shape) + ", expected " +
               shape_text(output.shape);
    }
    std::memcpy(memory.data(), array.data(), memory.size_bytes());
    return std::nullopt;
}

std::optional<std::string> take_outputs(const py::module_& numpy, const Problem& problem,
                                        const py::object& result,
                                        const std::vector<std::span<float>>& memory) {
    const bool several = py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result);
    const py::tuple values = several ? py::tuple(result) : py::make_tuple(result);
    if (values.size() != problem.outputs.size()) {
        return "returned " + std::to_string(values.size()) + " arrays, expected " +
               std::to_string(problem.outputs.size());
    }
    for (std::size_t i = 0; i < problem.outputs.size(); ++i) {
        if (auto fault = take_output(numpy, problem.outputs[i], values[i], memory.at(i))) {
            return fault;
        }
    }
    return std::nullopt;
}

}  // namespace

std::string reference_identity() {
    static const std::string identity = [] {
        start();
        const py::gil_scoped_acquire lock;
        return "numpy " + std::string(py::str(load_numpy().attr("__version__"))) + ", BLAS " +
               choose_blas().core_type;
    }();
    return identity;
}

std::string input_seed(const std::string& secret, const std::string& problem_id, int k) {
    // Lengths keep (secret, id) pairs apart whatever characters they hold.
    return sha256_hex("accelopt input seed 1\n" + std::to_string(secret.size()) + ":" + secret +
                      std::to_string(problem_id.size()) + ":" + problem_id + std::to_string(k));
}

std::optional<std::string> compute_reference(const Problem& problem, const std::string& seed_hex,
                                             const std::vector<std::span<float>>& inputs,
                                             const std::vector<std::span<float>>& outputs) {
    start();
    const py::gil_scoped_acquire lock;
    try {
        const py::module_ numpy = load_numpy();
        const py::tuple arguments = make_inputs(numpy, problem, seed_hex, inputs);
        const py::object result = run_forward(problem, arguments);
        return take_outputs(numpy, problem, result, outputs);
    } catch (py::error_already_set& error) {
        if (error.matches(PyExc_MemoryError)) throw std::bad_alloc();
        return last_line(error);
    } catch (const py::builtin_exception& error) {
        return std::string(error.what());
    }
}

}  // namespace accelopt::eval
