#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

/// Budget of the Python objects of a kernel (lists, strings, indices): kernels need kilobytes.
constexpr std::int64_t kHeapBytes = 64 * 1024 * 1024;

}  // namespace

Evaluator::Evaluator(const Module& module, const TraceOptions& options)
    : options_(options),
      table_(options.api != nullptr ? *options.api : nki1_api()),
      heap_(std::min(kHeapBytes, options.limits.memory_bytes)),
      builder_(heap_, options.limits),
      code_(lower(module, heap_)) {
    globals_ = heap_.make<Environment>();
    globals_->slots.resize(static_cast<std::size_t>(code_->module->slots));
    for (const ApiEntry& entry : table_.entries())
        api_ids_.push_back(builder_.api_index(std::string(entry.name)));
    operator_api_ = builder_.api_index("operator");
    arange_api_ = table_.find("nl.arange");
}

void Evaluator::out_of_steps() const {
    exhausted("steps", fmt::format("the kernel takes more than {} steps", options_.limits.steps))
        .limit(options_.limits.steps)
        .remedy("check for an endless loop")
        .raise();
}

Finding Evaluator::locate(Finding finding) const {
    if (finding.line == 0) {
        finding.line = line_;
        finding.column = column_;
    }
    if (finding.operation.empty() && api_ >= 0) finding.operation = table_[api_].name;
    return finding;
}

Function& Evaluator::entry_function() {
    if (options_.entry) {
        for (auto it = functions_.rbegin(); it != functions_.rend(); ++it)
            if ((*it)->code->name == *options_.entry) return **it;
        std::vector<std::string> names;
        for (const Ref<Function>& function : functions_) names.push_back(function->code->name);
        const std::string near = nearest_word(*options_.entry, names);
        rejected("undefined_name",
                 fmt::format("the file has no function '{}'{}", *options_.entry,
                             near.empty() ? "" : fmt::format(", did you mean '{}'?", near)))
            .at(1, 1)
            .raise();
    }
    Function* decorated = nullptr;
    Function* named = nullptr;
    for (const Ref<Function>& function : functions_) {
        const std::string& name = function->code->name;
        const bool usual = name == "kernel" || name == "optimized_kernel";
        // The last definition wins, a usual name over another one.
        if (function->kernel &&
            (decorated == nullptr || usual ||
             (decorated->code->name != "kernel" && decorated->code->name != "optimized_kernel")))
            decorated = function.get();
        if (name == "kernel" ||
            (name == "optimized_kernel" && (named == nullptr || named->code->name != "kernel")))
            named = function.get();
    }
    if (decorated != nullptr) return *decorated;
    if (named != nullptr) return *named;
    rejected("undefined_name", "the file has no kernel function")
        .at(1, 1)
        .remedy("decorate the kernel with @nki.jit, or name it 'kernel'")
        .raise();
}

Value Evaluator::scalar_value(const Argument& argument) {
    if (const auto* number = std::get_if<double>(&argument)) return Value::number(*number);
    if (const auto* integer = std::get_if<std::int64_t>(&argument)) return Value::integer(*integer);
    if (const auto* flag = std::get_if<bool>(&argument)) return Value::boolean(*flag);
    return literal_value(std::get<LiteralArgument>(argument));
}

Value Evaluator::literal_value(const LiteralArgument& literal) {
    if (const auto* flag = std::get_if<bool>(&literal.value)) return Value::boolean(*flag);
    if (const auto* integer = std::get_if<std::int64_t>(&literal.value))
        return Value::integer(*integer);
    if (const auto* number = std::get_if<double>(&literal.value)) return Value::number(*number);
    if (const auto* text = std::get_if<std::string>(&literal.value)) return string(*text);
    const auto* items = std::get_if<std::vector<LiteralArgument>>(&literal.value);
    if (items == nullptr) return Value::none();
    std::vector<Value> values;
    for (const LiteralArgument& item : *items) values.push_back(literal_value(item));
    return tuple(std::move(values));
}

std::vector<Value> Evaluator::make_arguments(const Function& function,
                                             const std::vector<Argument>& arguments) {
    std::vector<std::string> names;
    for (const ParameterCode& parameter : function.code->parameters) {
        if (parameter.kind != ParameterKind::kPositional) continue;
        names.push_back(name(parameter.name));
        mutable_.push_back(parameter.annotation.ends_with("mutable_tensor"));
    }
    std::vector<Value> values;
    int tensors = 0;
    for (std::size_t k = 0; k < arguments.size(); ++k) {
        if (const auto* tensor = std::get_if<TensorArgument>(&arguments[k])) {
            TensorSpec spec;
            spec.shape = tensor->shape;
            spec.dtype = tensor->dtype;
            spec.buffer = Buffer::kHbm;
            spec.role = TensorRole::kInput;
            spec.name = k < names.size() ? names[k] : fmt::format("argument{}", k);
            spec.line = function.code->line;
            spec.context = 0;
            const TensorId id = builder_.allocate(std::move(spec));
            builder_.program().tensors[id].argument = tensors++;
            if (k < mutable_.size() && mutable_[k]) builder_.make_mutable(id);
            values.push_back(Value::tile(builder_.whole(id)));
        } else {
            values.push_back(scalar_value(arguments[k]));
        }
    }
    return values;
}

void Evaluator::collect_outputs(const Value& result, std::vector<Ref<Tile>>& outputs) {
    if (result.is(Kind::kNone)) return;
    if (result.is(Kind::kTuple) || result.is(Kind::kList)) {
        for (const Value& item : result.as<Sequence>().items) {
            if (!item.is(Kind::kTile))
                rejected("output_type", fmt::format("the kernel returns '{}' among its outputs",
                                                    kind_name(item.kind())))
                    .raise();
            outputs.push_back(item.ref<Tile>());
        }
        return;
    }
    if (!result.is(Kind::kTile))
        rejected("output_type",
                 fmt::format("the kernel returns '{}', not a tensor", kind_name(result.kind())))
            .remedy("return the HBM tensor that holds the result")
            .raise();
    outputs.push_back(result.ref<Tile>());
}

/// Runs the kernel once for every program of the grid; returns the outputs, which all share. The
/// instances count as iterations that may run in any order.
std::vector<Ref<Tile>> Evaluator::run_instances(Function& function,
                                                const std::vector<Value>& values) {
    constexpr std::int64_t kMaxPrograms = 65'536;
    std::int64_t programs = 1;
    for (const std::int64_t size : options_.grid) {
        if (size < 1) rejected("value_error", "a launch grid needs sizes above 0").raise();
        programs = checked_multiply(programs, size);
    }
    if (programs > kMaxPrograms)
        exhausted("memory", "the launch grid has too many programs").limit(kMaxPrograms).raise();
    const bool grid = !options_.grid.empty();
    if (grid)
        builder_.loops().enter(&options_, LoopKind::kAffine, "program_id", programs,
                               function.code->line);
    std::vector<Ref<Tile>> outputs;
    program_.assign(options_.grid.size(), 0);
    for (std::int64_t number = 0; number < programs; ++number) {
        if (grid) builder_.loops().next_iteration();
        std::int64_t rest = number;
        for (std::size_t d = program_.size(); d-- > 0;) {
            program_[d] = rest % options_.grid[d];
            rest /= options_.grid[d];
        }
        builder_.start_instance();
        std::vector<Value> arguments = values;
        std::vector<std::pair<int, Value>> keywords;
        const Value result = kept(call_function(function, arguments, keywords));
        std::vector<Ref<Tile>> returned;
        collect_outputs(result, returned);
        if (number == 0) {
            outputs = std::move(returned);
            continue;
        }
        bool same = outputs.size() == returned.size();
        for (std::size_t k = 0; same && k < outputs.size(); ++k)
            same = outputs[k]->tensor == returned[k]->tensor;
        if (!same)
            rejected("output_type", "the program instances return different tensors")
                .remedy("return tensors created with buffer=nl.shared_hbm by every instance")
                .raise();
    }
    if (grid) builder_.loops().leave();
    return outputs;
}

Program Evaluator::run(const std::vector<Argument>& arguments) {
    Frame frame;
    frame.environment = globals_.get();
    frame_ = &frame;
    execute(code_->module->body);
    Function& function = entry_function();
    in_kernel_ = true;
    line_ = function.code->line;
    column_ = 1;
    const std::vector<Value> values = make_arguments(function, arguments);
    const std::vector<Ref<Tile>> outputs = run_instances(function, values);
    frame_ = nullptr;
    builder_.finish(outputs);
    Program program = std::move(builder_.program());
    program.steps = steps_;
    return program;
}

}  // namespace accelopt::nki::interp

namespace accelopt::nki {

Result<Program, Finding> trace(const Module& module, const std::vector<Argument>& arguments,
                               const TraceOptions& options) {
    std::unique_ptr<interp::Evaluator> evaluator;
    try {
        evaluator = std::make_unique<interp::Evaluator>(module, options);
        return evaluator->run(arguments);
    } catch (interp::TraceFailure& failure) {
        if (evaluator) return Failure{evaluator->locate(std::move(failure.finding))};
        return Failure{std::move(failure.finding)};
    } catch (const std::bad_alloc&) {
        Finding finding;
        finding.outcome = "resource_limit";
        finding.code = "memory";
        finding.message = "the trace ran out of memory";
        return Failure{std::move(finding)};
    }
}

}  // namespace accelopt::nki
