#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "trainium/bounds.h"
#include "trainium/execute.h"
#include "trainium/leftovers.h"
#include "trainium/operands.h"
#include "trainium/tile_memory.h"
#include "trainium/written_map.h"

namespace accelopt::trainium {
namespace execution {

using nki::Buffer;
using nki::Finding;
using nki::Opcode;
using nki::Operation;
using nki::Tensor;
using nki::TensorRole;

namespace {

Finding rejection(std::string code, const nki::Program& program, const Operation* operation) {
    Finding finding;
    finding.outcome = "rejected";
    finding.code = std::move(code);
    if (operation != nullptr) {
        finding.line = operation->line;
        finding.column = operation->column;
        const bool named = operation->api >= 0 &&
                           static_cast<std::size_t>(operation->api) < program.api_names.size();
        finding.operation = named ? program.api_names[operation->api]
                                  : std::string(nki::to_string(operation->opcode));
    }
    return finding;
}

std::string display_name(const Tensor& tensor) {
    return tensor.name.empty() ? fmt::format("a tile of line {}", tensor.line)
                               : fmt::format("'{}'", tensor.name);
}

/// True when an operation writes every element of its destination tile.
bool overwrites(const Operation& operation, const Resolved& resolved, const Tensor& tensor) {
    if (operation.accumulate || operation.opcode == Opcode::kReduce ||
        operation.opcode == Opcode::kScatter) {
        return false;
    }
    const Space& space = resolved.target_space(operation);
    if (!space.coupled.empty() || space.size() != tensor.partitions * tensor.free_elements) {
        return false;
    }
    for (int d = 0; d < space.rank; ++d) {
        if (space.count[d] > 1 && resolved.target.stride[d] == 0) return false;
    }
    return true;
}

/// Finds reads of elements that nothing has written.
class WriteTracker {
  public:
    WriteTracker(const nki::Program& program, const TileTable& tiles)
        : program_(program),
          tiles_(tiles),
          maps_(tiles.size()),
          made_(tiles.size(), 0),
          touched_(tiles.size(), 0) {}

    std::optional<Finding> visit(const Operation& operation, const Resolved& resolved) {
        std::optional<Finding> finding;
        bool lost_memory = false;
        for_each_read(operation, resolved, [&](const Reference& read) {
            const Tensor& tensor = program_.tensors[read.access.tensor];
            require_inside(read.access, *read.space, tensor, operation);
            if (finding || holds_values_from_the_start(tensor)) return;
            // A gather that skips indices leaves there whatever there is.
            if (operation.opcode == Opcode::kGather && read.what == "the accumulator") return;
            // Which elements a gather reads is known at run time only.
            const bool some =
                (operation.opcode == Opcode::kGather && read.what == "source 1") ||
                (operation.opcode == Opcode::kScatter && read.what == "the accumulator");
            if (some && map(read.access).anything()) return;
            if (map(read.access).written(read.access, *read.space)) return;
            const std::size_t tile = tiles_.tile_of(tensor.id, read.access.block);
            const auto lost = overwritten_.find(tile);
            const auto source = leftovers_.find(tile);
            lost_memory = lost_memory || lost != overwritten_.end();
            finding = lost != overwritten_.end()   ? report_overlap(operation, tensor, lost->second)
                      : source != leftovers_.end() ? source->second
                                                   : report(operation, tensor, read.what);
        });
        std::optional<std::vector<std::int64_t>> spoiled;
        if (finding && !lost_memory) spoiled = spoiled_elements(operation, resolved);
        if (finding && !spoiled) return finding;
        const Space& space = resolved.target_space(operation);
        const Tensor& tensor = program_.tensors[resolved.target.tensor];
        require_inside(resolved.target, space, tensor, operation);
        if (skips(operation)) {  // it may write nothing at all
            touched_[tiles_.tile_of(tensor.id, resolved.target.block)] = 1;
        } else {
            map(resolved.target).write(resolved.target, space);
        }
        if (spoiled && !spoiled->empty()) {
            WrittenMap& written = map(resolved.target);
            for (const std::int64_t offset : *spoiled) written.clear(offset);
            leftovers_[tiles_.tile_of(tensor.id, resolved.target.block)] = *finding;
        }
        if (!tensor.placements.empty()) overwrite(tensor, resolved.target.block, operation.line);
        return std::nullopt;
    }

    /// Forgets the maps of tiles that are not used after operation `index`.
    void release(std::int64_t index) {
        for (const std::size_t tile : tiles_.ending_at(index)) {
            if (program_.tensors[tiles_.tensor_of(tile)].role != TensorRole::kOutput) {
                maps_[tile] = WrittenMap();
                leftovers_.erase(tile);
            }
        }
    }

    bool written_to(nki::TensorId output) {
        const std::size_t tile = tiles_.tile_of(output, 0);
        return touched_[tile] != 0 || (made_[tile] != 0 && maps_[tile].anything());
    }

  private:
    static bool holds_values_from_the_start(const Tensor& tensor) {
        return tensor.role == TensorRole::kInput || tensor.role == TensorRole::kConstant ||
               tensor.is_mutable_parameter();
    }

    std::optional<std::vector<std::int64_t>> spoiled_elements(const Operation& operation,
                                                              const Resolved& resolved) {
        return elements_from_leftovers(
            operation, resolved, program_, [this](const Access& access) -> const WrittenMap* {
                if (holds_values_from_the_start(program_.tensors[access.tensor])) return nullptr;
                return &map(access);
            });
    }

    WrittenMap& map(const Access& access) {
        const std::size_t tile = tiles_.tile_of(access.tensor, access.block);
        if (made_[tile] == 0) {
            made_[tile] = 1;
            maps_[tile] = map_of(program_.tensors[access.tensor]);
        }
        return maps_[tile];
    }

    /// True for a DMA that leaves out elements whose indices are out of bounds.
    bool skips(const Operation& operation) const {
        return operation.extra >= 0 &&
               program_.extras[static_cast<std::size_t>(operation.extra)].skip_out_of_bounds;
    }

    /// Where a directly allocated tile lies.
    struct Place {
        std::size_t tile = 0;
        nki::TensorId tensor = -1;
        std::int64_t partition_lo = 0;
        std::int64_t partition_hi = 0;
        std::int64_t byte_lo = 0;
        std::int64_t byte_hi = 0;
        Buffer buffer = Buffer::kSbuf;

        bool meets(const Place& other) const {
            return buffer == other.buffer && partition_lo < other.partition_hi &&
                   other.partition_lo < partition_hi && byte_lo < other.byte_hi &&
                   other.byte_lo < byte_hi;
        }
    };
    struct Loss {
        nki::TensorId by = -1;
        int line = 0;
    };

    Place place_of(const Tensor& tensor, std::int64_t block) const {
        const Tensor::Placement& at = tensor.placements.at(static_cast<std::size_t>(block));
        return {tiles_.tile_of(tensor.id, block),
                tensor.id,
                at.partition,
                at.partition + tensor.partitions,
                at.byte,
                at.byte + tensor.free_elements * nki::size_of(tensor.dtype),
                tensor.buffer};
    }

    /// A write to a directly allocated tile destroys what lies at the same place.
    void overwrite(const Tensor& tensor, std::int64_t block, int line) {
        const Place here = place_of(tensor, block);
        overwritten_.erase(here.tile);
        for (std::size_t k = 0; k < placed_.size();) {
            const Place& other = placed_[k];
            if (other.tile == here.tile || !here.meets(other)) {
                ++k;
                continue;
            }
            maps_[other.tile] = map_of(program_.tensors[other.tensor]);
            overwritten_[other.tile] = {tensor.id, line};
            placed_[k] = placed_.back();
            placed_.pop_back();
        }
        for (const Place& place : placed_)
            if (place.tile == here.tile) return;
        placed_.push_back(here);
    }

    Finding report_overlap(const Operation& operation, const Tensor& tensor,
                           const Loss& loss) const {
        const bool psum = tensor.buffer == Buffer::kPsum;
        Finding finding = rejection(psum ? "psum_capacity" : "sbuf_capacity", program_, &operation);
        const Tensor& by = program_.tensors[loss.by];
        finding.shapes = {tensor.shape, by.shape};
        finding.message = fmt::format(
            "{} reads {} (line {}), whose memory {} (line {}) has taken by direct allocation: "
            "line {} wrote there",
            finding.operation, display_name(tensor), tensor.line, display_name(by), by.line,
            loss.line);
        finding.remedy =
            "give tiles that are needed at the same time different addresses, or more "
            "physical tiles (num_free_tiles)";
        return finding;
    }

    Finding report(const Operation& operation, const Tensor& tensor, std::string_view what) const {
        Finding finding = rejection("uninitialized_read", program_, &operation);
        finding.shapes.push_back(tensor.shape);
        finding.message = fmt::format(
            "{} reads elements of {} ({}, {}) that nothing has written; on the device "
            "they hold leftovers",
            finding.operation, display_name(tensor), nki::to_string(tensor.buffer), what);
        finding.remedy = operation.accumulate
                             ? "start the accumulation from nl.zeros, or overwrite first"
                             : "write every element (or mask the read) before it is used";
        return finding;
    }

    const nki::Program& program_;
    const TileTable& tiles_;
    std::vector<WrittenMap> maps_;
    std::vector<Place> placed_;  ///< directly allocated tiles that hold something
    std::map<std::size_t, Loss> overwritten_;
    /// Tiles that hold results of leftovers -> where those were read first.
    std::map<std::size_t, Finding> leftovers_;
    std::vector<char> made_;
    std::vector<char> touched_;  ///< by operations that may have skipped every element
};

/// Follows which PSUM tiles hold a value that is still to be read. A value lives from its first
/// write to its last read; a tile overwritten as a whole starts a new life, and zeros that the
/// front end implies need no space until the first product.
class PsumTracker {
  public:
    struct Life {
        std::int64_t first = 0;
        std::int64_t last = 0;
        nki::TensorId tensor = -1;
        std::int64_t banks = 0;
    };

    PsumTracker(const nki::Program& program, const TileTable& tiles, const Machine& machine)
        : program_(program), tiles_(tiles), machine_(machine), open_(tiles.size()) {}

    void visit(std::int64_t index, const Operation& operation, const Resolved& resolved) {
        for_each_read(operation, resolved, [&](const Reference& read) {
            if (Open* open = find(read.access)) {
                if (open->first < 0) open->first = index;
                open->last = index;
            }
        });
        Open* open = find(resolved.target);
        if (open == nullptr) return;
        const Tensor& tensor = program_.tensors[resolved.target.tensor];
        if (open->last != index && overwrites(operation, resolved, tensor)) {
            close(*open, tensor);
            if (operation.opcode == Opcode::kMemset && operation.implicit) return;
        }
        if (open->first < 0) open->first = index;
    }

    /// Returns the first over-subscription, in program order.
    std::optional<Finding> check() {
        if (machine_.psum_bank_bytes <= 0 || machine_.psum_partition_bytes <= 0) {
            return std::nullopt;
        }
        for (std::size_t tile = 0; tile < open_.size(); ++tile) {
            close(open_[tile], program_.tensors[tiles_.tensor_of(tile)]);
        }
        std::stable_sort(lives_.begin(), lives_.end(),
                         [](const Life& a, const Life& b) { return a.first < b.first; });
        const std::int64_t limit = machine_.psum_partition_bytes / machine_.psum_bank_bytes;
        const auto ends_later = [](const Life* a, const Life* b) { return a->last > b->last; };
        std::priority_queue<const Life*, std::vector<const Life*>, decltype(ends_later)> live(
            ends_later);
        std::int64_t banks = 0;
        for (const Life& life : lives_) {
            while (!live.empty() && live.top()->last < life.first) {
                banks -= live.top()->banks;
                live.pop();
            }
            live.push(&life);
            banks += life.banks;
            if (banks > limit) return report(life, banks, limit);
        }
        return std::nullopt;
    }

  private:
    struct Open {
        std::int64_t first = -1;
        std::int64_t last = -1;
    };

    Open* find(const Access& access) {
        if (program_.tensors[access.tensor].buffer != Buffer::kPsum) return nullptr;
        return &open_[tiles_.tile_of(access.tensor, access.block)];
    }

    void close(Open& open, const Tensor& tensor) {
        // Values that nobody reads are not computed by the compiler.
        if (open.first >= 0 && open.last >= 0) {
            const std::int64_t bytes = tensor.free_elements * nki::size_of(tensor.dtype);
            const std::int64_t bank = std::max<std::int64_t>(machine_.psum_bank_bytes, 1);
            lives_.push_back({open.first, open.last, tensor.id, (bytes + bank - 1) / bank});
        }
        open = Open{};
    }

    Finding report(const Life& life, std::int64_t banks, std::int64_t limit) const {
        // Live at the same moment, by tensor, largest first.
        std::vector<std::pair<std::int64_t, nki::TensorId>> users;
        for (const Life& other : lives_) {
            if (other.first > life.first || other.last < life.first) continue;
            const auto same = std::find_if(users.begin(), users.end(), [&](const auto& user) {
                return user.second == other.tensor;
            });
            if (same == users.end()) {
                users.emplace_back(other.banks, other.tensor);
            } else {
                same->first += other.banks;
            }
        }
        std::stable_sort(users.begin(), users.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        Finding finding = rejection("psum_capacity", program_, &program_.operations[life.first]);
        std::string list;
        constexpr std::size_t kListed = 8;
        for (std::size_t k = 0; k < users.size() && k < kListed; ++k) {
            const Tensor& tensor = program_.tensors[users[k].second];
            list += fmt::format("{}{} (line {}): {}", k == 0 ? "" : ", ", display_name(tensor),
                                tensor.line, users[k].first);
            finding.shapes.push_back(tensor.shape);
        }
        if (users.size() > kListed) list += fmt::format(" and {} more", users.size() - kListed);
        finding.message = fmt::format(
            "{} PSUM banks are live at once, the machine has {}; banks by "
            "tensor: {}",
            banks, limit, list);
        finding.limit = limit;
        finding.remedy = "copy results to SBUF sooner, or accumulate fewer tiles at a time";
        return finding;
    }

    const nki::Program& program_;
    const TileTable& tiles_;
    const Machine& machine_;
    std::vector<Open> open_;
    std::vector<Life> lives_;
};

/// A tile that cannot fit into an empty SBUF.
std::optional<Finding> oversized_tile(const nki::Program& program, const Machine& machine) {
    if (machine.sbuf_partition_bytes <= 0) return std::nullopt;
    for (const Tensor& tensor : program.tensors) {
        if (tensor.buffer != Buffer::kSbuf) continue;
        const std::int64_t bytes = tensor.free_elements * nki::size_of(tensor.dtype);
        if (bytes <= machine.sbuf_partition_bytes) continue;
        Finding finding = rejection("sbuf_capacity", program, nullptr);
        finding.line = tensor.line;
        finding.shapes.push_back(tensor.shape);
        finding.limit = machine.sbuf_partition_bytes;
        finding.message = fmt::format("a tile of {} takes {} bytes per partition, SBUF has {}",
                                      display_name(tensor), bytes, machine.sbuf_partition_bytes);
        finding.remedy = "tile the free dimension";
        return finding;
    }
    return std::nullopt;
}

/// Bytes per partition of the different SBUF tiles that one operation needs at once.
std::int64_t sbuf_bytes_of(const Operation& operation, const nki::Program& program) {
    std::array<std::pair<nki::TensorId, std::int64_t>, 8> tiles;
    std::size_t count = 0;
    std::int64_t bytes = 0;
    const auto add = [&](const nki::View& view) {
        const Tensor& tensor = program.tensors[view.tensor];
        const auto tile = std::pair(view.tensor, view.block);
        if (tensor.buffer != Buffer::kSbuf) return;
        if (std::find(tiles.begin(), tiles.begin() + count, tile) != tiles.begin() + count) return;
        tiles[count++] = tile;
        bytes += tensor.free_elements * nki::size_of(tensor.dtype);
    };
    add(operation.dst);
    for (int k = 0; k < operation.sources; ++k) add(operation.src[k]);
    for (const auto* scalar :
         {&operation.scale, &operation.bias, &operation.operand0, &operation.operand1}) {
        if (scalar->vector) add(scalar->view);
    }
    return bytes;
}

/// An operation whose tiles do not fit SBUF together: no spilling helps it.
std::optional<Finding> crowded_operation(const nki::Program& program, const Machine& machine) {
    const std::int64_t capacity = machine.sbuf_partition_bytes;
    const bool any_large =
        std::any_of(program.tensors.begin(), program.tensors.end(), [&](const Tensor& tensor) {
            return tensor.buffer == Buffer::kSbuf &&
                   tensor.free_elements * nki::size_of(tensor.dtype) > capacity / 8;
        });
    if (capacity <= 0 || !any_large) return std::nullopt;
    for (const Operation& operation : program.operations) {
        const std::int64_t bytes = sbuf_bytes_of(operation, program);
        if (bytes <= capacity) continue;
        Finding finding = rejection("sbuf_capacity", program, &operation);
        finding.limit = capacity;
        finding.message =
            fmt::format("the tiles of one {} take {} bytes per partition together, SBUF has {}",
                        finding.operation, bytes, capacity);
        finding.remedy = "tile the free dimension";
        return finding;
    }
    return std::nullopt;
}

std::optional<Finding> missing_output(const nki::Program& program, WriteTracker& writes) {
    for (const nki::TensorId id : program.outputs) {
        const Tensor& tensor = program.tensors.at(static_cast<std::size_t>(id));
        if (tensor.role == TensorRole::kOutput && writes.written_to(id)) continue;
        Finding finding = rejection("tensor_output_not_written_to", program, nullptr);
        finding.line = tensor.line;
        finding.shapes.push_back(tensor.shape);
        finding.message =
            fmt::format("the kernel returns {} but never stores to it", display_name(tensor));
        finding.remedy = "store the result before it is returned";
        return finding;
    }
    return std::nullopt;
}

}  // namespace
}  // namespace execution

std::optional<nki::Finding> check_legality(const nki::Program& program, const Machine& machine) {
    if (auto finding = execution::oversized_tile(program, machine)) return finding;
    if (auto finding = execution::crowded_operation(program, machine)) return finding;
    const execution::TileTable tiles(program);
    execution::WriteTracker writes(program, tiles);
    execution::PsumTracker psum(program, tiles, machine);
    execution::Resolved resolved;
    const auto count = static_cast<std::int64_t>(program.operations.size());
    for (std::int64_t i = 0; i < count; ++i) {
        const nki::Operation& operation = program.operations[i];
        execution::resolve(operation, resolved);
        if (!resolved.space.empty) {
            if (auto finding = writes.visit(operation, resolved)) return finding;
            psum.visit(i, operation, resolved);
        }
        writes.release(i);
    }
    if (auto finding = psum.check()) return finding;
    return execution::missing_output(program, writes);
}

}  // namespace accelopt::trainium
