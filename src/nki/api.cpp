#include "nki/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "nki/builtins.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {

int ApiParameters::find(std::string_view name) const {
    for (std::size_t k = 0; k < list.size(); ++k)
        if (list[k].name == name) return static_cast<int>(k);
    return -1;
}

namespace {

ApiParameters parse_parameters(std::string_view text) {
    ApiParameters parameters;
    bool keyword_only = false;
    for (std::string part : split(std::string_view(text), ',')) {
        part.erase(0, part.find_first_not_of(' '));
        if (part.empty()) continue;
        if (part == "*") {
            keyword_only = true;
            continue;
        }
        ApiParameters::Parameter parameter;
        parameter.optional = part.back() == '?';
        if (parameter.optional) part.pop_back();
        parameter.name = part;
        parameter.keyword_only = keyword_only;
        parameters.list.push_back(std::move(parameter));
    }
    require(parameters.list.size() <= kMaxApiParameters, "an API entry has too many parameters");
    return parameters;
}

}  // namespace

ApiTable::ApiTable(std::string version, std::vector<ApiEntry> entries)
    : version_(std::move(version)), entries_(std::move(entries)) {
    for (const ApiEntry& entry : entries_) {
        parameters_.push_back(parse_parameters(entry.parameters));
        const bool added =
            index_.emplace(entry.name, static_cast<int>(parameters_.size()) - 1).second;
        require(added, "an API table lists a function twice");
    }
}

int ApiTable::find(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? -1 : found->second;
}

bool is_float(DType dtype) { return dtype <= DType::kFloat8E5M2; }

bool is_bitwise(AluOp op) {
    return op == AluOp::kBitwiseAnd || op == AluOp::kBitwiseOr || op == AluOp::kBitwiseXor ||
           op == AluOp::kShiftLeft || op == AluOp::kShiftRight;
}

namespace {

/// Exponent and mantissa bits of a float format.
struct FloatBits {
    int exponent;
    int mantissa;
};

FloatBits float_bits(DType dtype) {
    switch (dtype) {
        case DType::kFloat8E4M3:
            return {4, 3};
        case DType::kFloat8E5M2:
            return {5, 2};
        case DType::kFloat16:
            return {5, 10};
        case DType::kBFloat16:
            return {8, 7};
        case DType::kTFloat32:
            return {8, 10};
        default:
            return {8, 23};
    }
}

DType promote_floats(DType a, DType b) {
    const FloatBits x = float_bits(a);
    const FloatBits y = float_bits(b);
    if (x.exponent >= y.exponent && x.mantissa >= y.mantissa) return a;
    if (y.exponent >= x.exponent && y.mantissa >= x.mantissa) return b;
    // Neither holds the other's values: the two 8-bit formats meet in bfloat16.
    if (size_of(a) == 1 && size_of(b) == 1) return DType::kBFloat16;
    if (size_of(a) == 1 || size_of(b) == 1) return size_of(a) == 1 ? b : a;
    return a == DType::kTFloat32 || b == DType::kTFloat32 ? DType::kTFloat32 : DType::kFloat32;
}

DType promote_integers(DType a, DType b) {
    if (a == DType::kBool) a = DType::kUInt8;  // stored as uint8
    if (b == DType::kBool) b = DType::kUInt8;
    if (a == b) return a;
    const bool a_signed = a <= DType::kInt32;
    const bool b_signed = b <= DType::kInt32;
    if (a_signed == b_signed) return size_of(a) > size_of(b) ? a : b;
    const DType with_sign = a_signed ? a : b;
    const DType without = a_signed ? b : a;
    if (size_of(with_sign) > size_of(without)) return with_sign;
    switch (without) {
        case DType::kUInt8:
            return DType::kInt16;
        case DType::kUInt16:
            return DType::kInt32;
        default:
            return DType::kFloat32;  // the hardware has no 64-bit integers
    }
}

}  // namespace

DType promote(DType a, DType b) {
    if (a == b) return a;
    if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
    return is_float(a) ? promote_floats(a, b) : promote_integers(a, b);
}

DType scalar_dtype(const Value& number) {
    if (const auto own = number.dtype()) return *own;
    if (number.is(Kind::kFloat)) return DType::kFloat32;
    return number.is(Kind::kBool) ? DType::kUInt8 : DType::kInt32;
}

bool is_exact_integer(AluOp op, const OpRequest& request) {
    if (op != AluOp::kAdd && op != AluOp::kSubtract && op != AluOp::kMultiply) return false;
    const auto wide = [](DType dtype) { return dtype == DType::kInt32 || dtype == DType::kUInt32; };
    if (!wide(request.dtype)) return false;
    for (int k = 0; k < request.sources; ++k)
        if (!wide(request.src[k]->dtype) || request.src[k]->buffer == Buffer::kPsum) return false;
    return true;
}

std::int64_t free_count(const Tile& tile) {
    std::int64_t n = 1;
    for (int d = 1; d < tile.rank; ++d) n *= tile.dims[d].count;
    return n;
}

ApiCall::ApiCall(Evaluator& host, int index)
    : host_(host),
      index_(index),
      entry_(host.api()[index]),
      parameters_(host.api().parameters(index)) {}

bool ApiCall::has(int k) const {
    return !arguments_[k].is(Kind::kUnbound) && !arguments_[k].is(Kind::kNone);
}

int ApiCall::at(std::string_view name) const {
    const int k = parameters_.find(name);
    require(k >= 0, "an API handler asks for a parameter its entry does not list");
    return k;
}

void ApiCall::bad_argument(int k, const std::string& expected) const {
    const bool tensor = arguments_[k].is(Kind::kTile) || arguments_[k].is(Kind::kPending);
    const bool wants_number = expected.starts_with("a number") || expected.starts_with("an int");
    rejected(tensor && wants_number ? "trace_value_access" : "type_error",
             fmt::format("argument '{}' of {} must be {}, not {}", parameters_.list[k].name,
                         entry_.name, expected, host_.repr(arguments_[k])))
        .raise();
}

bool ApiCall::is_tile(int k) const {
    return arguments_[k].is(Kind::kTile) || arguments_[k].is(Kind::kPending);
}

Ref<Tile> ApiCall::loose_tile(int k, bool dynamic) {
    if (!is_tile(k)) bad_argument(k, "a tile");
    Ref<Tile> tile = host_.materialise(arguments_[k]);
    arguments_[k] = Value::tile(tile);
    if (!dynamic && !tile->dynamic.empty()) host_.builder().check_tile(*tile);
    return tile;
}

Ref<Tile> ApiCall::tile(int k) {
    const Ref<Tile> tile = loose_tile(k);
    host_.builder().check_tile(*tile);
    if (tile->broadcast_partitions == 0) return tile;
    return host_.builder().settle(tile, host_.request_here(Opcode::kPartitionBroadcast));
}

std::int64_t ApiCall::integer(int k) const {
    if (!arguments_[k].is_integer()) bad_argument(k, "an int");
    return arguments_[k].integer();
}

double ApiCall::number(int k) const {
    if (!arguments_[k].is_number()) bad_argument(k, "a number known at trace time");
    return arguments_[k].number();
}

bool ApiCall::flag(int k, bool otherwise) const {
    if (!has(k)) return otherwise;
    if (!arguments_[k].is_integer()) bad_argument(k, "True or False");
    return arguments_[k].integer() != 0;
}

std::string ApiCall::text(int k) const {
    if (!has(k)) return {};
    if (!arguments_[k].is(Kind::kString)) bad_argument(k, "a string");
    return arguments_[k].as<String>().text;
}

DType ApiCall::dtype(int k) const {
    const Value& value = arguments_[k];
    if (value.is(Kind::kDType)) return static_cast<DType>(value.integer());
    if (value.is(Kind::kString))
        if (const auto parsed = parse_dtype(value.as<String>().text)) return *parsed;
    if (value.is(Kind::kBuiltin)) {
        const std::string_view name = builtin_name(static_cast<int>(value.integer()));
        if (name == "bool") return DType::kBool;
        if (name == "float") return DType::kFloat32;
        if (name == "int") return DType::kInt32;
    }
    bad_argument(k, "a dtype");
}

std::vector<std::int64_t> ApiCall::shape(int k) const {
    std::vector<std::int64_t> shape;
    if (arguments_[k].is_integer()) {
        shape.push_back(arguments_[k].integer());
        return shape;
    }
    if (!arguments_[k].is(Kind::kTuple) && !arguments_[k].is(Kind::kList))
        bad_argument(k, "a tuple of ints");
    for (const Value& n : arguments_[k].as<Sequence>().items) {
        if (!n.is_integer()) bad_argument(k, "a tuple of ints");
        shape.push_back(n.integer());
    }
    return shape;
}

AluOp ApiCall::alu(int k) const {
    const Value& value = arguments_[k];
    AluOp op = AluOp::kNone;
    if (value.is(Kind::kApi)) op = host_.api()[value.integer()].alu;
    if (value.is(Kind::kNumpy)) op = numpy_table()[value.integer()].alu;
    if (op == AluOp::kNone) bad_argument(k, "an ALU operator such as nl.add");
    return op;
}

ActFunction ApiCall::act(int k) const {
    const Value& value = arguments_[k];
    std::optional<ActFunction> act;
    if (value.is(Kind::kApi)) act = host_.api()[value.integer()].act;
    if (value.is(Kind::kNumpy)) act = numpy_table()[value.integer()].act;
    if (!act) bad_argument(k, "an activation function such as nl.exp");
    return *act;
}

ScalarRequest ApiCall::scalar(int k) {
    ScalarRequest scalar;
    if (arguments_[k].is_number()) {
        scalar.immediate = arguments_[k].number();
    } else if (is_tile(k)) {
        scalar.tile = tile(k);
    } else {
        bad_argument(k, "a number or a [P, 1] tile");
    }
    return scalar;
}

OpRequest ApiCall::request(Opcode opcode) {
    OpRequest request = host_.request_here(opcode);
    request.engine = entry_.engine;
    const int engine = parameters_.find("engine");
    if (engine >= 0 && has(engine)) {
        if (!arguments_[engine].is(Kind::kEngine)) bad_argument(engine, "an engine of nisa");
        request.engine = static_cast<Engine>(arguments_[engine].integer());
    }
    const int mask = parameters_.find("mask");
    if (mask >= 0 && has(mask)) {
        const Value& value = arguments_[mask];
        if (value.marks() & Value::kNotAffine) {
            rejected("unsupported_expression_in_mask",
                     "a mask must be an affine expression: // and % of a loop variable are not")
                .remedy("compare sums and multiples of loop variables and nl.arange")
                .raise();
        } else if (value.is(Kind::kMask)) {
            request.mask = value.as<Mask>().expr;
            request.masked = true;
        } else if (value.is(Kind::kBool)) {
            request.mask.never = value.integer() == 0;
        } else {
            rejected("unsupported_expression_in_mask",
                     "a mask must be a comparison of affine index expressions")
                .remedy("compare nl.arange expressions, joined by &")
                .raise();
        }
    }
    return request;
}

Value ApiCall::pending(OpRequest request) { return host_.pending(std::move(request)); }

}  // namespace accelopt::nki::interp
