// pybind11 includes Python.h, which comes first, as its manual asks.
#include "eval/reference/suite_reference.h"

#include <pybind11/embed.h>
#include <pybind11/numpy.h>

#include <new>

#include "core/error.h"
#include "core/text.h"
#include "eval/reference/blas.h"
#include "nki/syntax/python_runtime.h"

namespace accelopt::eval {

namespace {

namespace py = pybind11;
using py::literals::operator""_a;

/// Functions of numpy.random that draw arrays of a given shape, and where they take it from.
struct Draw {
    const char* name;
    bool shape_is_arguments;  ///< randn(2, 3) instead of normal(size=(2, 3))
};
constexpr Draw kDraws[] = {{"normal", false}, {"standard_normal", false}, {"uniform", false},
                           {"random", false}, {"random_sample", false},   {"randn", true},
                           {"rand", true}};

/// "reference/silu.py:12: ValueError: message" of a Python exception.
std::string sentence(py::error_already_set& error, const std::string& path) {
    std::string place = path + ": ";
    for (py::object trace = error.trace(); trace && !trace.is_none();
         trace = trace.attr("tb_next")) {
        const auto code = trace.attr("tb_frame").attr("f_code");
        if (std::string(py::str(code.attr("co_filename"))) != path) continue;
        place = path + ":" + std::string(py::str(trace.attr("tb_lineno"))) + ": ";
    }
    const std::string type = py::str(error.type().attr("__name__"));
    return place + type + ": " + std::string(py::str(error.value()));
}

/// Runs `action`; a Python exception becomes a sentence, lack of memory std::bad_alloc.
template <typename F>
std::optional<std::string> guarded(const std::string& path, F action) {
    try {
        return action();
    } catch (py::error_already_set& error) {
        if (error.matches(PyExc_MemoryError)) throw std::bad_alloc();
        return sentence(error, path);
    } catch (const py::builtin_exception& error) {
        return path + ": " + error.what();
    }
}

std::optional<nki::DType> dtype_of(const std::string& numpy_name) {
    using nki::DType;
    static const std::pair<const char*, DType> known[] = {
        {"float32", DType::kFloat32}, {"float16", DType::kFloat16}, {"int8", DType::kInt8},
        {"int16", DType::kInt16},     {"int32", DType::kInt32},     {"uint8", DType::kUInt8},
        {"uint16", DType::kUInt16},   {"uint32", DType::kUInt32},   {"bool", DType::kBool}};
    for (const auto& [name, dtype] : known) {
        if (numpy_name == name) return dtype;
    }
    return std::nullopt;
}

std::vector<std::int64_t> shape_of(const py::array& array) {
    return {array.shape(), array.shape() + array.ndim()};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::vector<std::string> parts;
    for (const std::int64_t extent : shape) parts.push_back(std::to_string(extent));
    return "(" + join(parts, ", ") + ")";
}

/// One kernel argument from what transform_to_nki_inputs gives; an error sentence otherwise.
Result<nki::Argument, std::string> argument_of(const py::handle& value, std::size_t index) {
    const std::string which = "kernel input " + std::to_string(index);
    if (py::isinstance<py::array>(value) && py::cast<py::array>(value).ndim() > 0) {
        const auto array = py::cast<py::array>(value);
        const std::string name = py::str(array.dtype());
        const auto dtype = dtype_of(name);
        if (!dtype) {
            return Failure{which + " has dtype " + name +
                           ", which no NKI tensor has; cast it in get_inputs (float32)"};
        }
        return nki::Argument{nki::TensorArgument{shape_of(array), *dtype}};
    }
    // Python and numpy scalars.
    const py::object item = py::hasattr(value, "item") ? py::object(value.attr("item")())
                                                       : py::reinterpret_borrow<py::object>(value);
    if (item.is_none()) return nki::Argument{nki::LiteralArgument{}};
    if (py::isinstance<py::bool_>(item)) return nki::Argument{item.cast<bool>()};
    if (py::isinstance<py::int_>(item)) return nki::Argument{item.cast<std::int64_t>()};
    if (py::isinstance<py::float_>(item)) return nki::Argument{item.cast<double>()};
    if (py::isinstance<py::str>(item)) {
        return nki::Argument{nki::LiteralArgument{item.cast<std::string>()}};
    }
    return Failure{which + " is of type " +
                   std::string(py::str(py::type::of(item).attr("__name__"))) +
                   ", neither an array nor a number"};
}

bool same(const nki::Argument& a, const nki::Argument& b) {
    const auto* x = std::get_if<nki::TensorArgument>(&a);
    const auto* y = std::get_if<nki::TensorArgument>(&b);
    if ((x == nullptr) != (y == nullptr)) return false;
    // Values of scalars are part of the traced kernel.
    if (x == nullptr) {
        if (a.index() != b.index()) return false;
        const auto* p = std::get_if<double>(&a);
        const auto* q = std::get_if<std::int64_t>(&a);
        return (!p || *p == std::get<double>(b)) && (!q || *q == std::get<std::int64_t>(b));
    }
    return x->shape == y->shape && x->dtype == y->dtype;
}

std::int64_t total_unwritten(const std::vector<trainium::OutputArray>& outputs) {
    std::int64_t total = 0;
    for (const auto& output : outputs) total += output.unwritten_elements;
    return total;
}

py::tuple as_tuple(const py::object& value) {
    const bool several = py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value);
    return several ? py::tuple(value) : py::make_tuple(value);
}

}  // namespace

struct __attribute__((visibility("hidden"))) SuiteReference::State {
    std::string path;
    py::dict scope;
    py::module_ numpy;
    std::vector<py::array> inputs;  ///< tensors for the kernel, contiguous
    py::object reference;           ///< what forward() returned

    /// Python objects die under the lock.
    ~State() {
        const py::gil_scoped_acquire lock;
        inputs.clear();
        for (py::object* held :
             {&reference, static_cast<py::object*>(&scope), static_cast<py::object*>(&numpy)}) {
            held->release().dec_ref();
        }
    }

    py::object function(const char* name) const {
        return scope.contains(name) ? py::object(scope[name]) : py::none();
    }

    /// What the kernel is called with, from what the reference is called with.
    py::tuple nki_inputs(const py::object& drawn) const {
        const py::object transform = function("transform_to_nki_inputs");
        return as_tuple(transform.is_none() ? drawn : py::object(transform(drawn)));
    }
};

SuiteReference::SuiteReference(std::unique_ptr<State> state) : state_(std::move(state)) {}
SuiteReference::~SuiteReference() = default;

Result<std::unique_ptr<SuiteReference>, std::string> SuiteReference::open(const std::string& path) {
    choose_blas();
    nki::start_python();
    const std::string text = read_file(path);
    const py::gil_scoped_acquire lock;
    auto state = std::make_unique<State>();
    state->path = path;
    const auto fault = guarded(path, [&]() -> std::optional<std::string> {
        state->numpy = py::module_::import("numpy");
        state->numpy.attr("seterr")("all"_a = "ignore");
        const py::module_ builtins = py::module_::import("builtins");
        state->scope["__builtins__"] = builtins;
        state->scope["__name__"] = "reference";
        builtins.attr("exec")(builtins.attr("compile")(text, path, "exec"), state->scope);
        for (const char* name : {"get_inputs", "forward"}) {
            if (state->function(name).is_none()) {
                return path + ": the file defines no " + name +
                       "(); a reference of the suite needs get_inputs and forward";
            }
        }
        return std::nullopt;
    });
    if (fault) return Failure{*fault};
    return std::unique_ptr<SuiteReference>(new SuiteReference(std::move(state)));
}

namespace {

/// Replaces numpy's global draws by zeros for the length of a scope.
class ZeroDraws {
  public:
    explicit ZeroDraws(const py::module_& numpy) : random_(numpy.attr("random")) {
        const py::object zeros = numpy.attr("zeros");
        for (const Draw& draw : kDraws) {
            saved_[draw.name] = random_.attr(draw.name);
            random_.attr(draw.name) = replacement(draw, zeros);
        }
    }
    ~ZeroDraws() {
        for (const auto& [name, function] : saved_) random_.attr(name) = function;
    }
    ZeroDraws(const ZeroDraws&) = delete;
    ZeroDraws& operator=(const ZeroDraws&) = delete;

  private:
    static py::cpp_function replacement(const Draw& draw, const py::object& zeros) {
        if (draw.shape_is_arguments) {
            return py::cpp_function([zeros](const py::args& extents) { return zeros(extents); });
        }
        const bool bare = std::string(draw.name).find("random") == 0 ||
                          std::string(draw.name) == "standard_normal";
        const std::size_t place = bare ? 0 : 2;  // normal(loc, scale, size), random(size)
        return py::cpp_function([zeros, place](const py::args& given, const py::kwargs& named) {
            if (named.contains("size")) return py::object(zeros(named["size"]));
            if (given.size() > place) return py::object(zeros(given[place]));
            return py::object(py::float_(0.0));
        });
    }

    py::object random_;
    py::dict saved_;
};

}  // namespace

Result<std::vector<nki::Argument>, std::string> SuiteReference::kernel_arguments() {
    const py::gil_scoped_acquire lock;
    std::vector<nki::Argument> arguments;
    const auto learn = [&]() -> std::optional<std::string> {
        arguments.clear();
        const py::tuple values = state_->nki_inputs(state_->function("get_inputs")());
        for (std::size_t i = 0; i < values.size(); ++i) {
            auto made = argument_of(values[i], i);
            if (!made) return state_->path + ": " + made.error();
            arguments.push_back(std::move(*made));
        }
        return std::nullopt;
    };
    const auto quick = guarded(state_->path, [&] {
        const ZeroDraws zeros(state_->numpy);
        return learn();
    });
    if (!quick) return arguments;
    const auto fault = guarded(state_->path, [&] {
        state_->numpy.attr("random").attr("seed")(0);
        return learn();
    });
    if (fault) return Failure{*fault};
    return arguments;
}

std::optional<std::string> SuiteReference::compute(std::uint32_t seed,
                                                   const std::vector<nki::Argument>& arguments) {
    const py::gil_scoped_acquire lock;
    state_->inputs.clear();
    state_->reference = py::none();
    return guarded(state_->path, [&]() -> std::optional<std::string> {
        state_->numpy.attr("random").attr("seed")(seed);
        const py::object drawn = state_->function("get_inputs")();
        const py::tuple values = state_->nki_inputs(drawn);
        if (values.size() != arguments.size()) {
            return state_->path + ": get_inputs gives another number of inputs than before";
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto made = argument_of(values[i], i);
            if (!made) return state_->path + ": " + made.error();
            if (!same(*made, arguments[i])) {
                return state_->path + ": kernel input " + std::to_string(i) +
                       " has another kind, shape or value than with another seed";
            }
            if (!std::holds_alternative<nki::TensorArgument>(*made)) continue;
            // A copy: forward() may keep or change what it was given.
            state_->inputs.push_back(
                py::array(state_->numpy.attr("array")(values[i], "order"_a = "C")));
        }
        state_->reference = state_->function("forward")(*as_tuple(drawn));
        return std::nullopt;
    });
}

std::vector<trainium::InputArray> SuiteReference::inputs() const {
    std::vector<trainium::InputArray> out;
    for (const py::array& array : state_->inputs) {
        out.push_back({array.data(), static_cast<std::int64_t>(array.nbytes())});
    }
    return out;
}

Result<std::vector<OutputVerdict>, std::string> SuiteReference::verify(
    const std::vector<trainium::OutputArray>& outputs, double tolerance) {
    const py::gil_scoped_acquire lock;
    std::vector<OutputVerdict> verdicts;
    const auto misshaped = [&](const std::string& message) {
        verdicts.push_back({false, "output_shape", message, {}});
        return std::nullopt;
    };
    py::tuple mine;
    const auto refused = guarded(state_->path, [&]() -> std::optional<std::string> {
        py::list arrays;
        for (const auto& output : outputs) {
            // A view of memory that outlives this call; read-only.
            const py::capsule base(output.bytes.data(), [](void*) {});
            py::array array(py::dtype::of<float>(),
                            std::vector<py::ssize_t>(output.shape.begin(), output.shape.end()),
                            output.bytes.data(), base);
            array.attr("flags").attr("writeable") = false;
            arrays.append(array);
        }
        const py::object transform = state_->function("transform_nki_outputs");
        const py::object raw = arrays.size() == 1 ? py::object(arrays[0]) : py::tuple(arrays);
        mine = as_tuple(transform.is_none() ? raw : py::object(transform(raw, state_->reference)));
        return std::nullopt;
    });
    if (refused) {
        misshaped("transform_nki_outputs does not take what the kernel returns: " + *refused);
        return verdicts;
    }
    const auto fault = guarded(state_->path, [&]() -> std::optional<std::string> {
        const py::tuple theirs = as_tuple(state_->reference);
        if (mine.size() != theirs.size()) {
            return misshaped("the kernel returns " + std::to_string(mine.size()) +
                             " tensors, the reference " + std::to_string(theirs.size()));
        }
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
            const Floats reference{py::object(theirs[i])};
            const Floats output{py::object(mine[i])};
            if (shape_of(output) != shape_of(reference)) {
                return misshaped("output " + std::to_string(i) + " has shape " +
                                 shape_text(shape_of(output)) + ", the reference " +
                                 shape_text(shape_of(reference)));
            }
            const auto count = static_cast<std::size_t>(reference.size());
            const std::int64_t unwritten = mine.size() == outputs.size()
                                               ? outputs[i].unwritten_elements
                                               : total_unwritten(outputs);
            verdicts.push_back(verify_published({output.data(), count}, {reference.data(), count},
                                                unwritten, tolerance));
        }
        return std::nullopt;
    });
    if (fault) return Failure{*fault};
    return verdicts;
}

}  // namespace accelopt::eval
