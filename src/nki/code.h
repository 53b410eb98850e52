#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nki/syntax/ast.h"
#include "nki/value.h"

namespace accelopt::nki::interp {

/// The names of a module, numbered in order of appearance.
class Names {
  public:
    int intern(std::string_view name);
    const std::string& text(int id) const { return texts_[id]; }

  private:
    std::unordered_map<std::string, int> ids_;
    std::vector<std::string> texts_;
};

/// Operators, numbered for switches.
enum class Op : std::uint8_t {
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kFloorDivide,
    kModulo,
    kPower,
    kMatMul,
    kBitAnd,
    kBitOr,
    kBitXor,
    kShiftLeft,
    kShiftRight,
    kNegative,
    kPositive,
    kInvert,
    kNot,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kIs,
    kIsNot,
    kIn,
    kNotIn
};
const char* op_text(Op op);

enum class NodeKind : std::uint8_t {
    kConstant,
    kLocal,
    kOuter,
    kGlobal,
    kBuiltinName,
    kUndefinedName,
    kAttribute,
    kSubscript,
    kSlice,
    kCall,
    kBinary,
    kUnary,
    kAnd,
    kOr,
    kCompare,
    kConditional,
    kTuple,
    kList,
    kDict,
    kSet,
    kStarred,
    kLambda,
    kComprehension,
    kFormatted,
    kFormattedValue,
    kNamed,
    kUnsupported
};

/// An expression with its names resolved to slots.
struct Node {
    NodeKind kind = NodeKind::kConstant;
    Op op = Op::kAdd;
    char collection = 0;  ///< kComprehension: l(ist), g(enerator), s(et), d(ict)
    int line = 0;
    int column = 0;
    int id = 0;        ///< unique: the site of tensors it allocates
    int slot = -1;     ///< kLocal, kOuter, kGlobal
    int hops = 0;      ///< kOuter: environments to go out
    int name = -1;     ///< interned: names, attributes
    std::string text;  ///< kUnsupported, kFormattedValue
    Value constant;
    std::vector<Node*> kids;  ///< may hold nulls (slice bounds, ** of a dict)
    std::vector<Op> comparators;
    std::vector<int> keywords;  ///< kCall: interned names of the last kids; -1 = **
    struct Clause {             ///< kComprehension
        Node* target = nullptr;
        Node* iterable = nullptr;
        std::vector<Node*> conditions;
    };
    std::vector<Clause> clauses;
    const FunctionCode* function = nullptr;  ///< kLambda
    std::vector<Node*> defaults;             ///< kLambda
    // Caches of the evaluator.
    mutable std::int64_t cached_key = -1;  ///< kAttribute: module; kCall: API
    mutable Value cached_value;
    mutable std::vector<int> cached_binding;  ///< kCall: parameter of every argument
    // Marks of analyse_replay(): what must turn out true for a loop around to be replayed.
    mutable bool replay_needs_tile = false;   ///< kSubscript: of a tile
    mutable bool replay_needs_slice = false;  ///< kCall: of nl.ds
    mutable bool replay_needs_index = false;  ///< kBinary: of integers and index expressions
    mutable bool replay_masked = false;       ///< kCall: of an API function, with a mask
    bool spread = false;                      ///< kCall: has * or ** arguments
    bool pure_index = false;  ///< a literal nl.arange(..)[..]: its value may be cached
};

/// A statement with its names resolved.
struct Step {
    StmtKind kind = StmtKind::kPass;
    Op op = Op::kAdd;
    int line = 0;
    int column = 0;
    std::string text;
    std::vector<Node*> targets;
    Node* value = nullptr;
    Node* annotation = nullptr;
    std::vector<Step*> body;
    std::vector<Step*> otherwise;
    // kFunction
    const FunctionCode* function = nullptr;
    std::vector<Node*> defaults;
    std::vector<Node*> decorators;
    // kImport, kImportFrom: module path or name, and the node to bind
    std::vector<std::pair<std::string, Node*>> imports;
    // kWith
    std::vector<std::pair<Node*, Node*>> items;
};

struct ParameterCode {
    int name = -1;
    ParameterKind kind = ParameterKind::kPositional;
    int slot = 0;
    std::string annotation;  ///< dotted name, for nt.mutable_tensor
};

/// The code of a function, a lambda or the module.
struct FunctionCode {
    std::string name;
    int line = 0;
    int slots = 0;
    std::vector<ParameterCode> parameters;
    std::vector<Step*> body;
    Node* expression = nullptr;  ///< of a lambda
};

/// A lowered module. Owns all nodes; `names` is shared with the evaluator.
struct Code {
    Names names;
    std::deque<Node> nodes;
    std::deque<Step> steps;
    std::deque<FunctionCode> functions;
    const FunctionCode* module = nullptr;
    std::unordered_map<int, int> globals;  ///< interned name -> slot of the module environment
};

/// Resolves the names of a module. Constructs that are not supported become nodes that raise when
/// they are executed. `heap` owns the constants and outlives the code.
std::unique_ptr<Code> lower(const Module& module, Heap& heap);

}  // namespace accelopt::nki::interp
