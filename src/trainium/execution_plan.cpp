#include "trainium/execution_plan.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "trainium/operands.h"
#include "trainium/stream_access.h"
#include "trainium/tile_memory.h"

namespace accelopt::trainium::execution {

using nki::Operation;
using nki::TensorRole;
using nki::View;

namespace {

/// Less than this is kept whatever the sizes of inputs and outputs: about twice SBUF.
constexpr std::int64_t kAlwaysHeld = 48 << 20;
/// A planned order must save this much to be worth leaving program order.
constexpr double kWorthwhile = 0.7;
/// Beyond so many visible accesses of one tile the search for dependencies is given up.
constexpr std::size_t kMaxAccesses = 8192;

bool is_held(const nki::Tensor& tensor) {
    return tensor.role == TensorRole::kOnChip || tensor.role == TensorRole::kScratch;
}

template <class Body>
void for_each_view(const Operation& operation, Body body) {
    for_each_read_view(operation, body);
    body(operation.dst);
}

/// Largest sum of the arrays alive at once, in bytes, when the operations run in `order`.
std::int64_t peak_bytes(const nki::Program& program, const TileTable& tiles,
                        const std::vector<std::int32_t>& order) {
    const std::size_t n = order.empty() ? program.operations.size() : order.size();
    const auto at = [&](std::size_t i) -> const Operation& {
        return program.operations[order.empty() ? i : static_cast<std::size_t>(order[i])];
    };
    std::vector<std::size_t> last(tiles.size(), 0);
    for (std::size_t i = 0; i < n; ++i) {
        for_each_view(at(i),
                      [&](const View& view) { last[tiles.tile_of(view.tensor, view.block)] = i; });
    }
    std::vector<bool> live(tiles.size(), false);
    std::int64_t now = 0;
    std::int64_t peak = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const auto change = [&](bool begins) {
            for_each_view(at(i), [&](const View& view) {
                const nki::Tensor& tensor = program.tensors[view.tensor];
                const std::size_t tile = tiles.tile_of(view.tensor, view.block);
                if (!is_held(tensor) || live[tile] == begins) return;
                if (!begins && last[tile] != i) return;
                live[tile] = begins;
                const std::int64_t bytes = array_bytes(tensor);
                // Absurd sizes are for the memory limit to refuse.
                if (bytes > std::numeric_limits<std::int32_t>::max() * std::int64_t{64}) return;
                now += begins ? bytes : -bytes;
                peak = std::max(peak, now);
            });
        };
        change(true);
        change(false);
    }
    return peak;
}

std::int64_t fixed_bytes(const nki::Program& program) {
    std::int64_t bytes = 0;
    for (const nki::Tensor& tensor : program.tensors) {
        if (tensor.role == TensorRole::kInput || tensor.role == TensorRole::kOutput) {
            bytes += array_bytes(tensor);
        }
    }
    return bytes;
}

/// For every operation, the earlier ones that must run before it.
class Dependencies {
  public:
    Dependencies(const nki::Program& program, const TileTable& tiles)
        : program_(program), tiles_(tiles), accesses_(tiles.size()) {}

    /// False when the program is beyond the bounds of the search.
    bool find() {
        first_.push_back(0);
        const auto count = static_cast<std::int32_t>(program_.operations.size());
        for (std::int32_t i = 0; i < count; ++i) {
            const Operation& operation = program_.operations[i];
            const std::size_t begin = items_.size();
            bool fits = true;
            for_each_read_view(operation, [&](const View& view) { fits = read(i, view) && fits; });
            if (!(write(i, operation.dst) && fits)) return false;
            std::sort(items_.begin() + static_cast<std::ptrdiff_t>(begin), items_.end());
            items_.erase(
                std::unique(items_.begin() + static_cast<std::ptrdiff_t>(begin), items_.end()),
                items_.end());
            first_.push_back(items_.size());
        }
        return true;
    }

    /// Every store to an output after what it depends on, in program order among those.
    std::vector<std::int32_t> on_demand() const {
        std::vector<std::int32_t> order;
        std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
        std::vector<bool> begun(program_.operations.size(), false);
        std::vector<std::int32_t> path;
        for (std::size_t root = 0; root < program_.operations.size(); ++root) {
            const Operation& operation = program_.operations[root];
            const nki::Tensor& target = program_.tensors[operation.dst.tensor];
            // Indices known at run time only may end the kernel.
            const bool checks = operation.opcode == nki::Opcode::kGather ||
                                operation.opcode == nki::Opcode::kScatter;
            if ((target.role != TensorRole::kOutput && !checks) || begun[root]) continue;
            begun[root] = true;
            path.push_back(static_cast<std::int32_t>(root));
            while (!path.empty()) {
                const auto node = static_cast<std::size_t>(path.back());
                if (next[node] == first_[node + 1]) {
                    order.push_back(path.back());
                    path.pop_back();
                    continue;
                }
                const std::int32_t needed = items_[next[node]++];
                if (begun[needed]) continue;
                begun[needed] = true;
                path.push_back(needed);
            }
        }
        return order;
    }

  private:
    struct Access {
        trainium::Operand box;
        std::int32_t operation = -1;
    };
    struct TileAccesses {
        std::vector<Access> writes;  ///< still visible
        std::vector<Access> reads;   ///< since the last covering write
    };

    static bool is_fixed(const nki::Tensor& tensor) {
        return tensor.role == TensorRole::kInput || tensor.role == TensorRole::kConstant;
    }

    trainium::Operand box_of(const View& view) const {
        return access_box(program_.tensors[view.tensor], view);
    }

    bool read(std::int32_t index, const View& view) {
        if (is_fixed(program_.tensors[view.tensor])) return true;
        TileAccesses& tile = accesses_[tiles_.tile_of(view.tensor, view.block)];
        const trainium::Operand box = box_of(view);
        for (const Access& write : tile.writes) {
            if (write.box.overlaps(box)) items_.push_back(write.operation);
        }
        tile.reads.push_back({box, index});
        return tile.reads.size() < kMaxAccesses;
    }

    bool write(std::int32_t index, const View& view) {
        TileAccesses& tile = accesses_[tiles_.tile_of(view.tensor, view.block)];
        const trainium::Operand box = box_of(view);
        for (std::vector<Access>* list : {&tile.writes, &tile.reads}) {
            std::erase_if(*list, [&](const Access& earlier) {
                if (!earlier.box.overlaps(box)) return false;
                if (earlier.operation != index) items_.push_back(earlier.operation);
                return box.covers(earlier.box);
            });
        }
        tile.writes.push_back({box, index});
        return tile.writes.size() < kMaxAccesses;
    }

    const nki::Program& program_;
    const TileTable& tiles_;
    std::vector<TileAccesses> accesses_;
    std::vector<std::size_t> first_;  ///< into items_, per operation
    std::vector<std::int32_t> items_;
};

}  // namespace

std::vector<std::int32_t> demand_order(const nki::Program& program) {
    const TileTable tiles(program);
    Dependencies dependencies(program, tiles);
    if (!dependencies.find()) return {};
    return dependencies.on_demand();
}

std::vector<std::int32_t> plan_execution(const nki::Program& program) {
    const TileTable tiles(program);
    const std::int64_t peak = peak_bytes(program, tiles, {});
    if (peak <= std::max(kAlwaysHeld, fixed_bytes(program))) return {};
    std::vector<std::int32_t> order = demand_order(program);
    const auto planned = static_cast<double>(peak_bytes(program, tiles, order));
    if (order.empty() || planned > kWorthwhile * static_cast<double>(peak)) return {};
    return order;
}

}  // namespace accelopt::trainium::execution
