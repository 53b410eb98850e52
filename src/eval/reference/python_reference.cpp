// pybind11 includes Python.h, which comes first, as its manual asks.
#include "eval/reference/python_reference.h"

#include <pybind11/embed.h>
#include <pybind11/numpy.h>

#include <algorithm>
#include <new>

#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "eval/reference/blas.h"
#include "eval/reference/input_drawing.h"
#include "eval/reference/pieces.h"
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

/// Runs a body with Python started and the lock held; an error sentence of what Python raised.
template <typename Body>
std::optional<std::string> with_python(Body body) {
    start();
    const py::gil_scoped_acquire lock;
    try {
        return body(load_numpy());
    } catch (py::error_already_set& error) {
        if (error.matches(PyExc_MemoryError)) throw std::bad_alloc();
        return last_line(error);
    } catch (const py::builtin_exception& error) {
        return std::string(error.what());
    }
}

/// A numpy array over foreign memory; a capsule as base makes numpy use it in place.
py::array wrap(float* memory, const std::vector<std::int64_t>& shape) {
    const py::capsule base(memory, [](void*) {});
    return py::array_t<float>(std::vector<py::ssize_t>(shape.begin(), shape.end()), memory, base);
}

py::array wrap_read_only(std::span<const float> memory, const std::vector<std::int64_t>& shape) {
    py::array array = wrap(const_cast<float*>(memory.data()), shape);
    array.attr("flags").attr("writeable") = false;
    return array;
}

/// The names that a Python text defines.
py::dict run_text(const std::string& text, const std::string& file) {
    const py::module_ builtins = py::module_::import("builtins");
    py::dict scope;
    scope["__builtins__"] = builtins;
    scope["__name__"] = "reference";
    builtins.attr("exec")(builtins.attr("compile")(text, file, "exec"), scope);
    return scope;
}

const char* kRounding = R"python(
import numpy as np


def round_bfloat16(x):
    bits = np.ascontiguousarray(x).view(np.uint32)
    bits = (bits + (((bits >> 16) & 1) + 0x7fff)) & np.uint32(0xffff0000)
    return bits.view(np.float32).reshape(x.shape)
)python";

py::dict parameters_of(const Distribution& d) {
    return py::dict("kind"_a = d.kind, "axis"_a = d.axis, "at"_a = d.at, "low"_a = d.low,
                    "high"_a = d.high, "value"_a = d.value, "deviation"_a = d.deviation,
                    "start"_a = d.from, "end"_a = d.to, "background"_a = d.background,
                    "base"_a = d.base, "scale"_a = d.scale);
}

void draw_published(const py::dict& drawing, const InputSet& set, std::size_t index,
                    py::array& target) {
    const py::object generator = drawing["Legacy"](*set.published_seed);
    for (std::size_t i = 0; i <= index; ++i) {
        const InputSpec& input = set.inputs[i];
        if (!input.tensor) continue;
        // One stream for all tensors: the ones before must be drawn to reach this one.
        py::array array = target;
        if (i < index) {
            array = py::array_t<float>(
                std::vector<py::ssize_t>(input.shape.begin(), input.shape.end()));
        }
        drawing["draw"](generator, array, **parameters_of(input.distribution));
    }
}

py::tuple make_arguments(const InputSet& set, Precision precision,
                         const std::vector<std::span<const float>>& tensors) {
    const py::dict rounding = run_text(kRounding, "rounding.py");
    py::tuple arguments(set.inputs.size());
    std::size_t tensor = 0;
    for (std::size_t i = 0; i < set.inputs.size(); ++i) {
        const InputSpec& input = set.inputs[i];
        if (!input.tensor) {
            arguments[i] = py::float_(input.scalar);
            continue;
        }
        py::object array = wrap_read_only(tensors.at(tensor++), input.shape);
        if (precision == Precision::kRoundedBFloat16) array = rounding["round_bfloat16"](array);
        if (precision != Precision::kFloat32) array = array.attr("astype")("float64");
        arguments[i] = array;
    }
    return arguments;
}

/// The arguments of one piece after the other: what is cut is converted piece by piece, the rest
/// once. A reference that writes into an argument would change what the next function sees.
class PieceArguments {
  public:
    PieceArguments(const Problem& problem, const InputSet& set,
                   const std::vector<std::span<const float>>& tensors)
        : problem_(problem), set_(set) {
        std::size_t tensor = 0;
        for (std::size_t i = 0; i < set.inputs.size(); ++i) {
            const InputSpec& input = set.inputs[i];
            if (!input.tensor) {
                whole_.append(py::float_(input.scalar));
                continue;
            }
            const py::object array = wrap_read_only(tensors.at(tensor++), input.shape);
            whole_.append(axis_of(i) ? array : read_only_double(array));
        }
    }

    py::tuple piece(const PiecePlan& plan, std::int64_t index) const {
        py::tuple arguments(whole_.size());
        for (std::size_t i = 0; i < whole_.size(); ++i) {
            const py::object whole = whole_[i];
            const auto axis = axis_of(i);
            if (!axis) {
                arguments[i] = whole;
                continue;
            }
            const auto axis_index = static_cast<std::size_t>(*axis);
            const PieceRange range = plan.range(index, set_.inputs[i].shape[axis_index]);
            py::tuple cut(axis_index + 1);
            for (std::size_t d = 0; d < axis_index; ++d)
                cut[d] = py::slice(py::none(), py::none(), py::none());
            cut[axis_index] =
                py::slice(py::int_(range.first), py::int_(range.first + range.count), py::none());
            arguments[i] = read_only_double(whole[cut]);
        }
        return arguments;
    }

  private:
    static py::object read_only_double(const py::object& array) {
        py::object wide = array.attr("astype")("float64");
        wide.attr("flags").attr("writeable") = false;
        return wide;
    }
    std::optional<int> axis_of(std::size_t input) const {
        return problem_.blocks ? problem_.blocks->inputs[input] : std::nullopt;
    }

    const Problem& problem_;
    const InputSet& set_;
    py::list whole_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::vector<std::string> parts;
    for (const std::int64_t extent : shape) parts.push_back(std::to_string(extent));
    return "(" + join(parts, ", ") + ")";
}

/// An error sentence when a result is not what the problem declares.
std::optional<std::string> fault_of(const OutputSpec& output,
                                    const std::vector<std::int64_t>& expected_shape,
                                    const py::array& array, Precision precision) {
    const std::string dtype = py::str(array.dtype());
    const std::string expected = precision == Precision::kFloat32 ? "float32" : "float64";
    if (dtype != expected) {
        return "output '" + output.name + "' has dtype " + dtype + ", expected " + expected;
    }
    const std::vector<std::int64_t> shape(array.shape(), array.shape() + array.ndim());
    if (shape != expected_shape) {
        return "output '" + output.name + "' has shape " + shape_text(shape) + ", expected " +
               shape_text(expected_shape);
    }
    return std::nullopt;
}

/// What a function of reference.py returned, as a tuple; an error sentence when the number of
/// arrays is wrong.
Result<py::tuple, std::string> results_of(const Problem& problem, py::object result) {
    const bool several = py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result);
    py::tuple values = several ? py::tuple(result) : py::make_tuple(result);
    if (values.size() == problem.outputs.size()) return values;
    return Failure{"returned " + std::to_string(values.size()) + " arrays, expected " +
                   std::to_string(problem.outputs.size())};
}

/// Hands one result on.
std::optional<std::string> take_output(
    const OutputSpec& output, const py::array& array, Precision precision, std::size_t index,
    const std::function<void(std::size_t, const ReferenceValues&)>& take) {
    if (auto fault = fault_of(output, output.shape, array, precision)) return fault;
    const auto size = static_cast<std::size_t>(array.size());
    ReferenceValues values;
    if (precision == Precision::kFloat32) {
        values.single = {static_cast<const float*>(array.data()), size};
    } else {
        values.wide = {static_cast<const double*>(array.data()), size};
    }
    take(index, values);
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

void draw_input(const InputSet& set, std::size_t index, std::span<float> values) {
    const auto fault = with_python([&](const py::module_& numpy) -> std::optional<std::string> {
        const InputSpec& input = set.inputs.at(index);
        const py::dict drawing = run_text(kInputDrawing, "input_drawing.py");
        py::array target = wrap(values.data(), input.shape);
        if (set.published_seed) {
            draw_published(drawing, set, index, target);
            return std::nullopt;
        }
        const std::string key = sha256_hex(set.seeds.at(index) + "/" + input.name);
        const py::object seed = py::module_::import("builtins").attr("int")(key, 16);
        const py::object random = numpy.attr("random");
        const py::object generator = random.attr("Generator")(random.attr("PCG64")(seed));
        drawing["draw"](generator, target, **parameters_of(input.distribution));
        return std::nullopt;
    });
    require(!fault, "drawing an input failed: " + fault.value_or(""));
}

std::optional<std::string> call_reference(
    const Problem& problem, const std::string& function, Precision precision, const InputSet& set,
    const std::vector<std::span<const float>>& tensors,
    const std::function<void(std::size_t, const ReferenceValues&)>& take) {
    return with_python([&](const py::module_& numpy) -> std::optional<std::string> {
        const py::dict scope = run_text(read_file(problem.reference_path), problem.reference_path);
        if (!scope.contains(function)) {
            return "the file defines no " + function + "()";
        }
        const auto values =
            results_of(problem, scope[function.c_str()](*make_arguments(set, precision, tensors)));
        if (!values) return values.error();
        for (std::size_t i = 0; i < problem.outputs.size(); ++i) {
            const py::array array = numpy.attr("ascontiguousarray")((*values)[i]);
            if (auto fault = take_output(problem.outputs[i], array, precision, i, take)) {
                return fault;
            }
        }
        return std::nullopt;
    });
}

std::optional<std::string> call_reference_in_pieces(
    const Problem& problem, const std::vector<std::string>& functions, const InputSet& set,
    const std::vector<std::span<const float>>& tensors,
    const std::function<void(std::size_t, std::size_t, const OutputPiece&)>& take) {
    std::string function;
    auto fault = with_python([&](const py::module_& numpy) -> std::optional<std::string> {
        const py::dict scope = run_text(read_file(problem.reference_path), problem.reference_path);
        const PieceArguments arguments(problem, set, tensors);
        const PiecePlan plan(problem);
        for (std::int64_t piece = 0; piece < plan.pieces(); ++piece) {
            const py::tuple cut = arguments.piece(plan, piece);
            for (std::size_t f = 0; f < functions.size(); ++f) {
                function = functions[f];
                if (!scope.contains(function)) return "the file defines no " + function + "()";
                const auto values = results_of(problem, scope[function.c_str()](*cut));
                if (!values) return values.error();
                for (std::size_t i = 0; i < problem.outputs.size(); ++i) {
                    const OutputSpec& output = problem.outputs[i];
                    const std::size_t axis = plan.output_axis(i);
                    const PieceRange range = plan.range(piece, output.shape[axis]);
                    std::vector<std::int64_t> shape = output.shape;
                    shape[axis] = range.count;
                    const py::array array = numpy.attr("ascontiguousarray")((*values)[i]);
                    if (auto wrong = fault_of(output, shape, array, Precision::kFloat64)) {
                        return wrong;
                    }
                    take(f, i,
                         {range.first,
                          range.count,
                          {static_cast<const double*>(array.data()),
                           static_cast<std::size_t>(array.size())}});
                }
            }
        }
        return std::nullopt;
    });
    if (!fault || function.empty()) return fault;
    return function + "(): " + *fault;
}

Result<std::vector<std::string>, std::string> reference_functions(const Problem& problem) {
    std::vector<std::string> names;
    const auto fault = with_python([&](const py::module_&) -> std::optional<std::string> {
        const py::object callable = py::module_::import("builtins").attr("callable");
        const py::dict scope = run_text(read_file(problem.reference_path), problem.reference_path);
        for (const auto& [name, value] : scope) {
            if (callable(value).cast<bool>()) names.push_back(py::str(name));
        }
        return std::nullopt;
    });
    if (fault) return Failure{*fault};
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace accelopt::eval
