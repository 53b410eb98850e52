#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "nki/api.h"
#include "nki/builder.h"
#include "nki/code.h"
#include "nki/failure.h"
#include "nki/interpreter.h"
#include "nki/modules.h"
#include "nki/replay_analysis.h"
#include "nki/value.h"

namespace accelopt::nki::interp {

/// Executes a lowered module: the Python of a kernel, over shapes. Tiles and operations are the
/// Builder's business.
class Evaluator {
  public:
    Evaluator(const Module& module, const TraceOptions& options);

    /// Runs the module, then its kernel; returns the finished program.
    Program run(const std::vector<Argument>& arguments);
    /// Fills in where execution stands, when the finding does not say.
    Finding locate(Finding finding) const;
    /// Places a fault at argument `k` of the API call being made, which may stand lines below it.
    void place_argument(Fault& fault, int k) const;

    Heap& heap() { return heap_; }
    Builder& builder() { return builder_; }
    const std::string& name(int id) const { return code_->names.text(id); }
    int intern(std::string_view name) { return code_->names.intern(name); }
    bool in_kernel() const { return in_kernel_; }
    int call_depth() const { return call_depth_; }
    /// Spends steps; raises resource_limit/steps.
    void tick(std::int64_t steps = 1) {
        steps_ += steps;
        if (steps_ > options_.limits.steps) out_of_steps();
    }

    // Values (evaluator_values.cpp)
    Value string(std::string text);
    Value tuple(std::vector<Value> items);
    Value list(std::vector<Value> items);
    Value shape_tuple(const std::vector<std::int64_t>& shape);
    bool truth(const Value& value);
    bool equal(const Value& a, const Value& b, int depth = 0);
    std::string repr(const Value& value, int depth = 0) const;
    std::string str(const Value& value) const;
    std::string format_value(const Value& value, const std::string& specification) const;
    Value format_string(const std::string& text, const std::vector<Value>& arguments,
                        const std::vector<std::pair<int, Value>>& keywords);
    Value percent_format(const std::string& text, const Value& right);
    /// The items of an iterable, materialised.
    std::vector<Value> items_of(const Value& iterable);
    bool replayed() const { return builder_.replayed() > 0; }
    std::int64_t to_integer(const Value& value, const char* what) const;
    void append(Sequence& sequence, Value value);
    void set_entry(Mapping& mapping, Value key, Value value);
    void check_mutable(const Container& container) const;

    // Tiles (evaluator_tiles.cpp)
    /// Makes a pending result a tile named `name`; tiles are returned as they are.
    Ref<Tile> materialise(const Value& value, const std::string& name = {});
    /// materialise() for values that are going to be kept: other values are untouched.
    Value kept(Value value, const std::string& name = {});
    void store_into(const Ref<Tile>& destination, const Value& value);
    void accumulate_into(const Ref<Tile>& destination, Op op, const Value& value);
    Value binary_tiles(AluOp op, const Value& a, const Value& b, OpRequest request,
                       std::optional<DType> dtype);
    /// The request of an elementwise operation of a tile with a tile or number, broadcasting; the
    /// dtype defaults to the promoted one.
    OpRequest binary_request(AluOp op, const Value& a, const Value& b, OpRequest request,
                             std::optional<DType> dtype);
    /// Number of the next draw of random numbers, and the seed they follow.
    std::uint64_t next_draw() {
        refuse_replay();
        return draws_++;
    }
    std::uint64_t seed() const { return seed_; }
    void reseed(std::uint64_t seed) {
        seed_ = seed;
        draws_ = 0;
    }
    const ApiTable& api() const { return table_; }
    /// The launch grid and where in it this instance stands.
    const std::vector<std::int64_t>& grid() const { return options_.grid; }
    const std::vector<std::int64_t>& program() const { return program_; }
    int core_version() const { return options_.core_version; }
    /// True inside a loop of the kernel; the launch grid is none.
    bool in_loop() { return builder_.loops().depth() > (options_.grid.empty() ? 0 : 1); }
    OpRequest request_here(Opcode opcode) const;
    OpRequest resolve_loop_reduce(const OpRequest& request, const Ref<Tile>& destination);
    Ref<Tile> index_tile(const Ref<Tile>& tile, const Value& index);
    Value pending(OpRequest request);

    // Operators and calls
    Value binary(Op op, const Value& a, const Value& b);
    Value unary(Op op, const Value& a);
    Value compare(Op op, const Value& a, const Value& b);
    Value subscript(const Value& base, const Value& index);
    Value call(const Value& callee, std::vector<Value> arguments);
    /// The same, with keywords where the function has parameters of all these names.
    Value call_named(const Value& callee, const std::vector<std::string>& names,
                     std::vector<Value> arguments);
    Value call_builtin(int id, std::vector<Value>& arguments,
                       std::vector<std::pair<int, Value>>& keywords);
    Value call_method(Method& method, std::vector<Value>& arguments,
                      std::vector<std::pair<int, Value>>& keywords);
    Value call_numpy(int index, std::vector<Value>& arguments,
                     std::vector<std::pair<int, Value>>& keywords);
    Value convert(DType dtype, const Value& value);
    Value attribute(const Value& base, int name);

  private:
    enum class Flow { kNext, kBreak, kContinue, kReturn };
    struct Frame {
        Environment* environment = nullptr;
        Value result;
    };
    struct Nesting;  // counts native recursion

    [[noreturn]] void out_of_steps() const;

    // Expressions (evaluator_expressions.cpp)
    Value evaluate(const Node& node);
    Value evaluate_here(const Node& node);
    Value load_name(const Node& node);
    Value evaluate_attribute(const Node& node);
    Value evaluate_subscript(const Node& node);
    Value evaluate_compare(const Node& node);
    Value evaluate_sequence(const Node& node);
    Value evaluate_mapping(const Node& node);
    Value evaluate_slice(const Node& node);
    Value evaluate_lambda(const Node& node);
    Value evaluate_formatted(const Node& node);
    Value evaluate_comprehension(const Node& node);
    void run_clauses(const Node& node, std::size_t clause, Container& out);
    void collect(const Node& node, Container& out);

    // Operators (evaluator_operators.cpp)
    Value arithmetic(Op op, const Value& a, const Value& b);
    Value integer_arithmetic(Op op, std::int64_t a, std::int64_t b);
    Value sequence_operator(Op op, const Value& a, const Value& b);
    Value compare_here(Op op, const Value& a, const Value& b);
    Value affine_operator(Op op, const Value& a, const Value& b);
    Value dynamic_operator(Op op, const Value& a, const Value& b);
    Value mask_operator(Op op, const Value& a, const Value& b);
    Value index_affine(const Affine& affine, const Value& index);
    Value index_sequence(const Value& base, const Value& index);

    // Calls (evaluator_calls.cpp)
    Value evaluate_call(const Node& node);
    Value call_api(int index, const Node& node);
    static Value run_handler(ApiCall& call);
    Value call_token(TokenId id, std::vector<Value>& arguments,
                     std::vector<std::pair<int, Value>>& keywords);
    Value call_function(Function& function, std::vector<Value>& arguments,
                        std::vector<std::pair<int, Value>>& keywords);
    void bind(const Function& function, std::vector<Value>& arguments,
              std::vector<std::pair<int, Value>>& keywords, Environment& environment);
    Value dispatch(const Value& callee, std::vector<Value>& arguments,
                   std::vector<std::pair<int, Value>>& keywords);
    Value mapping_method(const std::string& name, const Value& self, std::vector<Value>& arguments);
    Value sequence_method(const std::string& name, const Value& self,
                          std::vector<Value>& arguments);
    Value array_operator(Op op, const Value& a, const Value& b);
    /// The elements along the first axis: numbers, or arrays.
    std::vector<Value> array_items(const HostArray& array);
    Value array_element(const HostArray& array, const Value& index);
    /// max, min, sum or prod of all elements.
    Value array_reduction(const std::string& name, const HostArray& array);
    Value array_method(const std::string& name, const HostArray& self,
                       std::vector<Value>& arguments);
    Value string_method(const std::string& name, const std::string& text,
                        std::vector<Value>& arguments);
    Value tile_method(const std::string& name, const Value& self, std::vector<Value>& arguments,
                      std::vector<std::pair<int, Value>>& keywords);
    Value numpy_array(const std::string& name, std::vector<Value>& arguments,
                      std::vector<std::pair<int, Value>>& keywords);

    // Statements (evaluator_statements.cpp)
    Flow execute(const std::vector<Step*>& block);
    Flow execute(const Step& step);
    Flow execute_if(const Step& step);
    Flow execute_for(const Step& step);
    /// The numbers that local variables hold before a loop and that its body binds again. The
    /// device traces the body of an affine_range or a sequential_range once: `n += 1` in it does
    /// not count iterations, and every iteration sees the number that the loop began with.
    std::vector<std::pair<int, Value>> numbers_rebound_in(const Step& step);
    bool may_replay(const Step& step);
    void note_margins(const Value& mask);
    void refuse_replay() { builder_.refuse_replay(); }
    Flow execute_while(const Step& step);
    Flow execute_body(const Step& step, bool& stop);
    void execute_function(const Step& step);
    void execute_import(const Step& step);
    /// A module-level name of a module that only code on the host may use.
    Value host_module(const std::string& path);
    /// Raises when `value` is such a name.
    void refuse_host_module(const Value& value) const;
    void execute_assert(const Step& step);
    void execute_augmented(const Step& step);
    void execute_annotated(const Step& step);
    Flow execute_with(const Step& step);
    void assign(const Node& target, Value value);
    void assign_name(const Node& target, Value value);
    void unpack(const Node& target, const Value& value);
    void assign_item(const Value& base, const Value& index, Value value);
    Value& slot(const Node& node);

    // Entry (evaluator_entry.cpp)
    Function& entry_function();
    std::vector<Value> make_arguments(const Function& function,
                                      const std::vector<Argument>& arguments);
    Value scalar_value(const Argument& argument);
    Value literal_value(const LiteralArgument& literal);
    std::vector<Ref<Tile>> run_instances(Function& function, const std::vector<Value>& values);
    void collect_outputs(const Value& result, std::vector<Ref<Tile>>& outputs);

    TraceOptions options_;
    const ApiTable& table_;
    Heap heap_;
    Builder builder_;
    std::unique_ptr<Code> code_;
    Ref<Environment> globals_;
    std::vector<Ref<Function>> functions_;   ///< module-level functions, in order of definition
    std::vector<std::string> host_modules_;  ///< imported, not to be used
    Frame* frame_ = nullptr;
    bool in_kernel_ = false;
    int call_depth_ = 0;
    int nesting_ = 0;
    std::int64_t steps_ = 0;
    std::uint64_t seed_ = 0;
    std::uint64_t draws_ = 0;
    std::vector<std::int64_t> program_;  ///< program ids
    std::vector<bool> mutable_;          ///< parameters that are nt.mutable_tensor
    int line_ = 0;
    int column_ = 0;
    int site_ = -1;
    int api_ = -1;  ///< API call being executed, for findings
    std::unordered_map<const Step*, ReplayPlan> replay_plans_;
    std::unordered_map<const Step*, std::vector<int>> rebound_;  ///< see numbers_rebound_in
    int ds_api_ = -1;
    const Node* call_ = nullptr;  ///< of that call, when its arguments were bound from a node
    std::vector<int> api_ids_;    ///< API table index -> index into Program::api_names
    int operator_api_ = -1;       ///< the same for Python operators on tiles
    int arange_api_ = -1;
    std::vector<IndexItem> index_items_;  ///< of the subscript being applied; kept for its storage
};

}  // namespace accelopt::nki::interp
