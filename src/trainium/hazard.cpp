#include "trainium/hazard.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>

#include "core/text.h"
#include "trainium/operands.h"
#include "trainium/ordered_run.h"
#include "trainium/tile_memory.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium::execution {

using nki::Operation;
using nki::View;

namespace {

constexpr std::int32_t kNone = -1;

std::string name_of(const nki::Program& program, const Operation& operation) {
    const auto api = static_cast<std::size_t>(operation.api);
    const std::string name = operation.api >= 0 && api < program.api_names.size()
                                 ? program.api_names[api]
                                 : std::string(nki::to_string(operation.opcode));
    return fmt::format("{} (line {})", name, operation.line);
}

/// Where the two executions part: the first instruction to complete whose result differs.
struct Parting {
    std::int32_t node = kNone;
    int read = kNone;  ///< the first of its reads that differs; kNone: all agree
};

/// The views an operation reads, in the order of Fingerprint::reads.
std::vector<View> reads_of(const Operation& operation) {
    std::vector<View> views;
    for_each_read_view(operation, [&](const View& view) { views.push_back(view); });
    return views;
}

class Explanation {
  public:
    Explanation(const nki::Program& program, const CompiledKernel& kernel)
        : program_(program), kernel_(kernel) {
        position_.assign(kernel.stream.instructions.size(), kNone);
        node_of_.assign(program.operations.size(), kNone);
        std::int32_t at = 0;
        for (const OrderStep& step : kernel.order) {
            const bool runs = step.kind == OrderStep::Kind::kComplete &&
                              step.index < kernel.schedule.instructions;
            if (runs) position_[step.index] = at;
            ++at;
        }
        for (std::size_t k = 0; k < kernel.stream.instructions.size(); ++k) {
            const std::int32_t operation = kernel.stream.instructions[k].operation;
            // Of a broadcast in parts the last one counts.
            if (operation >= 0) node_of_[operation] = static_cast<std::int32_t>(k);
        }
    }

    /// What made the read of an instruction differ, and the two operations.
    std::string of_read(const Parting& parting) const {
        const std::int32_t index = kernel_.stream.instructions[parting.node].operation;
        const Operation& reader = program_.operations[index];
        const View view = reads_of(reader)[static_cast<std::size_t>(parting.read)];
        const std::int32_t at = position_[parting.node];
        const std::int32_t before = writer_before(index, view);
        const std::int32_t tile = read_tile(parting);
        if (before != kNone) {
            const std::int32_t node = node_of_[before];
            if (node == kNone || kernel_.stream.instructions[node].dst.tile != tile) {
                if (const std::int32_t kept = writer_of_tile(tile); kept != kNone) {
                    return fmt::format(
                        "{} reads what {} wrote instead of what {} wrote: the two "
                        "were merged, or one is loaded again too late",
                        name(index), name(kept), name(before));
                }
            } else if (position_[node] > at) {
                return fmt::format("{} reads before {} has written", name(index), name(before));
            }
        }
        if (const std::int32_t after = early_writer_after(index, view, at); after != kNone) {
            return fmt::format("{} reads after {} has overwritten it", name(index), name(after));
        }
        return of_memory(parting, index, tile, at);
    }

    /// Two stores to one element of an output that passed each other.
    std::string of_output(nki::TensorId tensor, std::int64_t element) const {
        std::int32_t last = kNone;
        std::int32_t latest = kNone;
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.operations.size()); ++i) {
            const Operation& operation = program_.operations[i];
            if (operation.dst.tensor != tensor || node_of_[i] == kNone) continue;
            if (!touches(operation, element)) continue;
            last = i;
            if (latest == kNone || position_[node_of_[i]] > position_[node_of_[latest]]) {
                latest = i;
            }
        }
        if (last == kNone || last == latest) {
            return "no instruction of the kernel accounts for it: this is a fault of the model";
        }
        return fmt::format("{} stores after {}, which comes later in the program", name(latest),
                           name(last));
    }

    std::string name(std::int32_t operation) const {
        return name_of(program_, program_.operations[operation]);
    }

  private:
    bool overlap(const View& a, const View& b) const {
        if (a.tensor != b.tensor || a.block != b.block) return false;
        const Space space_a = masked_space(a, {});
        const Space space_b = masked_space(b, {});
        return may_overlap(lay_over(a, a, space_a), space_a, lay_over(b, b, space_b), space_b,
                           program_.tensors[a.tensor].free_elements);
    }

    static bool touches(const Operation& operation, std::int64_t element) {
        Resolved resolved;
        resolve(operation, resolved);
        bool found = false;
        const Space& space = resolved.target_space(operation);
        for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
            Extents index = outer;
            for (std::int64_t i = begin; i < end && !found; ++i) {
                if (space.rank > 0) index[space.rank - 1] = i;
                found = offset_at(resolved.target, index, space.rank) == element;
            }
        });
        return found;
    }

    std::int32_t writer_before(std::int32_t index, const View& view) const {
        for (std::int32_t i = index; i-- > 0;) {
            if (overlap(program_.operations[i].dst, view)) return i;
        }
        return kNone;
    }

    /// An operation that comes later in the program but has written before `position`.
    std::int32_t early_writer_after(std::int32_t index, const View& view,
                                    std::int32_t position) const {
        const auto count = static_cast<std::int32_t>(program_.operations.size());
        for (std::int32_t i = index + 1; i < count; ++i) {
            const std::int32_t node = node_of_[i];
            if (node == kNone || position_[node] > position) continue;
            if (overlap(program_.operations[i].dst, view)) return i;
        }
        return kNone;
    }

    /// The tile that the instruction reads as this operand.
    std::int32_t read_tile(const Parting& parting) const {
        const Instruction& instruction = kernel_.stream.instructions[parting.node];
        return parting.read < instruction.sources ? instruction.src[parting.read].tile
                                                  : instruction.dst.tile;
    }

    /// The last operation of the program that wrote a tile of the stream.
    std::int32_t writer_of_tile(std::int32_t tile) const {
        const std::int32_t slice = kernel_.stream.tiles[tile].slice;
        if (slice >= 0) {
            const Slice& part = kernel_.stream.slices[slice];
            std::int32_t last = kNone;
            std::int32_t loads = 0;
            for (const auto& [of, operation] : kernel_.stream.sliced_loads) {
                if (of == part.tile && loads++ < part.loads) last = operation;
            }
            return last;
        }
        for (std::size_t k = kernel_.stream.instructions.size(); k-- > 0;) {
            const Instruction& instruction = kernel_.stream.instructions[k];
            if (instruction.dst.tile == tile && instruction.operation >= 0) {
                return instruction.operation;
            }
        }
        return kNone;
    }

    /// The memory of a tile was given away, spilled or loaded again at the wrong moment.
    std::string of_memory(const Parting& parting, std::int32_t index, std::int32_t tile,
                          std::int32_t at) const {
        std::int32_t reload = kNone;
        std::int32_t spill = kNone;
        for (std::size_t k = 0; k < kernel_.stream.instructions.size(); ++k) {
            const Instruction& instruction = kernel_.stream.instructions[k];
            const auto node = static_cast<std::int32_t>(k);
            if (instruction.op == StreamOp::kReload && instruction.dst.tile == tile &&
                node < parting.node)
                reload = node;
            if (instruction.op == StreamOp::kSpill && instruction.src[0].tile == tile &&
                node < parting.node)
                spill = node;
        }
        if (reload != kNone && position_[reload] > at) {
            return fmt::format("{} reads a spilled tile before it is loaded again", name(index));
        }
        if (reload != kNone && spill != kNone && spill < reload &&
            position_[spill] > position_[reload]) {
            return fmt::format("the tile that {} reads is loaded again before it is spilled",
                               name(index));
        }
        std::string text = fmt::format("the memory of the tile that {} reads", name(index));
        const Adjacency& uses = kernel_.schedule.uses;
        for (std::int32_t u = uses.first[parting.node]; u < uses.first[parting.node + 1]; ++u) {
            const std::int32_t life = uses.items[u];
            if (kernel_.schedule.allocations[life].tile != tile) continue;
            for (std::int32_t p = 0; p < at; ++p) {
                const OrderStep& step = kernel_.order[p];
                if (step.kind == OrderStep::Kind::kRelease && step.index == life) {
                    return text + " was given to another tile too early";
                }
            }
        }
        return text + " holds something else than in program order";
    }

    const nki::Program& program_;
    const CompiledKernel& kernel_;
    std::vector<std::int32_t> position_;  ///< of an instruction in the order
    std::vector<std::int32_t> node_of_;   ///< the instruction that performs an operation
};

/// Runs both orders and compares what every operation read and wrote.
Parting find_parting(const nki::Program& program, const CompiledKernel& kernel,
                     std::span<const InputArray> inputs, const ExecutionLimits& limits) {
    const TileTable tiles(program);
    std::vector<Fingerprint> expected(program.operations.size());
    {
        TileMemory memory(program, tiles, inputs, limits.memory_bytes);
        Executor executor(program, memory);
        for (std::size_t i = 0; i < program.operations.size(); ++i) {
            executor.run(program.operations[i], &expected[i]);
            memory.release(static_cast<std::int64_t>(i));
        }
    }
    OrderedRun run(program, kernel, tiles, inputs, limits);
    for (const OrderStep& step : kernel.order) {
        const bool completes =
            step.kind == OrderStep::Kind::kComplete && step.index < kernel.schedule.instructions;
        if (!completes || !run.performs_operation(kernel.stream.instructions[step.index])) {
            run.step(step);
            continue;
        }
        Fingerprint found;
        run.step(step, &found);
        const Fingerprint& wanted = expected[kernel.stream.instructions[step.index].operation];
        if (found.result == wanted.result) continue;
        Parting parting{step.index, kNone};
        for (std::size_t r = 0; r < found.reads.size() && r < wanted.reads.size(); ++r) {
            if (found.reads[r] == wanted.reads[r]) continue;
            parting.read = static_cast<int>(r);
            break;
        }
        return parting;
    }
    return {};
}

std::string number(nki::DType dtype, const std::array<std::byte, 4>& bytes) {
    if (is_integer(dtype)) {
        std::int64_t value = 0;
        decode_integers(dtype, bytes.data(), 1, &value, 1);
        return std::to_string(value);
    }
    float value = 0;
    decode(dtype == nki::DType::kTFloat32 ? nki::DType::kFloat32 : dtype, bytes.data(), 1, &value,
           1);
    return fmt::format("{:.9g}", value);
}

std::string index_text(const std::vector<std::int64_t>& shape, std::int64_t element) {
    std::vector<std::string> parts(shape.size());
    for (std::size_t d = shape.size(); d-- > 0;) {
        const std::int64_t count = std::max<std::int64_t>(1, shape[d]);
        parts[d] = std::to_string(element % count);
        element /= count;
    }
    return "[" + join(parts, ", ") + "]";
}

}  // namespace

nki::Finding explain_hazard(const nki::Program& program, const CompiledKernel& kernel,
                            std::span<const InputArray> inputs, const ExecutionLimits& limits,
                            const Difference& difference) {
    const nki::Tensor& output = program.tensors[program.outputs[difference.output]];
    const std::int64_t element = difference.byte / nki::size_of(output.dtype);
    nki::Finding finding;
    finding.outcome = "rejected";
    finding.code = "hazard";
    finding.shapes.push_back(output.shape);
    finding.message = fmt::format(
        "output '{}'{} is {} in program order but {} in the order in which the compiled "
        "instructions complete",
        output.name, index_text(output.shape, element), number(output.dtype, difference.expected),
        number(output.dtype, difference.found));
    finding.remedy =
        "make the order explicit: operations that share memory must not depend on which of them "
        "completes first";
    const Parting parting = find_parting(program, kernel, inputs, limits);
    const Explanation explanation(program, kernel);
    if (parting.node == kNone) {
        finding.message += ": " + explanation.of_output(output.id, element);
        finding.line = output.line;
        return finding;
    }
    const std::int32_t index = kernel.stream.instructions[parting.node].operation;
    const Operation& operation = program.operations[index];
    finding.line = operation.line;
    finding.column = operation.column;
    finding.operation = name_of(program, operation);
    finding.message +=
        ": " + (parting.read == kNone
                    ? explanation.name(index) + " makes another result of the same operands"
                    : explanation.of_read(parting));
    return finding;
}

}  // namespace accelopt::trainium::execution
