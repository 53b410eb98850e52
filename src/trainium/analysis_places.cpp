#include "trainium/analysis_places.h"

#include <map>
#include <unordered_map>

namespace accelopt::trainium {
namespace {

bool is_spill(StreamOp op) { return op == StreamOp::kSpill || op == StreamOp::kReload; }

std::string tensor_name(const nki::Program& program, nki::TensorId id) {
    if (id < 0) return "a compiler's tile";
    const std::string& name = program.tensors[id].name;
    return name.empty() ? "a tile" : name;
}

Place spill_place(const nki::Program& program, const Stream& stream,
                  const Instruction& instruction) {
    const nki::TensorId id = spilled_tensor(stream, instruction);
    Place place;
    place.line = id < 0 ? 0 : program.tensors[id].line;
    place.operation = instruction.op == StreamOp::kSpill ? "spill of " : "reload of ";
    place.operation += tensor_name(program, id);
    place.made_by_compiler = true;
    return place;
}

std::string base_name(const nki::Program& program, const Instruction& instruction) {
    if (instruction.operation < 0) {
        // Parts of a tensor that is loaded anew for every use, or the identity of nl.matmul.
        if (instruction.op != StreamOp::kLoad) return "copy";
        return instruction.line > 0 ? "load of slices" : "load of the identity";
    }
    const nki::Operation& op = program.operations[instruction.operation];
    if (op.api >= 0) return program.api_names[op.api];
    return std::string(nki::to_string(op.opcode));
}

/// The operation as the source names it, and what it became where that is something else.
std::string operation_name(const nki::Program& program, const Instruction& instruction) {
    std::string name = base_name(program, instruction);
    if (instruction.op == StreamOp::kTranspose && name.find("transpose") == std::string::npos) {
        name += " (transpose)";
    }
    if (instruction.op == StreamOp::kBroadcastMatmul) name += " (broadcast)";
    return name;
}

struct Key {
    std::int64_t a;
    std::int64_t b;
    bool operator==(const Key& other) const { return a == other.a && b == other.b; }
};
struct KeyHash {
    std::size_t operator()(const Key& key) const {
        return mix(static_cast<std::uint64_t>(key.a), static_cast<std::uint64_t>(key.b));
    }
};

}  // namespace

nki::TensorId spilled_tensor(const Stream& stream, const Instruction& instruction) {
    const Operand& tile = instruction.op == StreamOp::kSpill ? instruction.src[0] : instruction.dst;
    return stream.tiles[tile.tile].tensor;
}

Places::Places(const nki::Program& program, const Stream& stream) {
    of_.reserve(stream.instructions.size());
    std::unordered_map<Key, std::int32_t, KeyHash> found;
    std::map<std::pair<std::int32_t, std::string>, std::int32_t> described;
    for (const Instruction& instruction : stream.instructions) {
        Key key{};
        if (is_spill(instruction.op)) {
            key = {-1 - static_cast<std::int64_t>(instruction.op),
                   spilled_tensor(stream, instruction)};
        } else {
            const std::int64_t api =
                instruction.operation < 0 ? -1000 : program.operations[instruction.operation].api;
            key = {instruction.line, api * 64 + static_cast<std::int64_t>(instruction.op)};
        }
        const auto [at, fresh] = found.try_emplace(key, size());
        if (fresh) {
            Place place{instruction.line, "", false};
            if (is_spill(instruction.op)) {
                place = spill_place(program, stream, instruction);
            } else {
                place.operation = operation_name(program, instruction);
            }
            // A tile that is allocated in a loop is many tensors, but one place of the source.
            const auto [same, first] = described.try_emplace({place.line, place.operation}, size());
            if (first) places_.push_back(std::move(place));
            at->second = same->second;
        }
        of_.push_back(at->second);
    }
}

}  // namespace accelopt::trainium
