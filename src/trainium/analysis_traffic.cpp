#include "trainium/analysis_traffic.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "trainium/analysis_places.h"

namespace accelopt::trainium {
namespace {

using protocol::TensorTraffic;

std::string kind_of(const nki::Tensor& tensor) {
    switch (tensor.role) {
        case nki::TensorRole::kInput:
            return "input";
        case nki::TensorRole::kOutput:
            return "output";
        case nki::TensorRole::kScratch:
            return "scratch";
        case nki::TensorRole::kConstant:
            return "constant";
        case nki::TensorRole::kOnChip:
            return "spilled";
    }
    return "";
}

class Traffic {
  public:
    Traffic(const nki::Program& program, const Stream& stream)
        : program_(program), stream_(stream), saved_(stream.tiles.size(), false) {}

    std::vector<TensorTraffic> run() {
        for (const Instruction& instruction : stream_.instructions) {
            if (!is_dma(instruction.op)) continue;
            if (instruction.op == StreamOp::kSpill || instruction.op == StreamOp::kReload) {
                count_spill(instruction);
            } else {
                count(instruction);
            }
        }
        std::vector<TensorTraffic> sorted;
        for (TensorTraffic& traffic : by_source()) {
            if (traffic.read_bytes > 0 && traffic.bytes > 0) {
                traffic.reads_per_byte =
                    static_cast<double>(traffic.read_bytes) / static_cast<double>(traffic.bytes);
            }
            sorted.push_back(std::move(traffic));
        }
        std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
            return a.read_bytes + a.written_bytes > b.read_bytes + b.written_bytes;
        });
        return sorted;
    }

  private:
    /// A tile that is allocated in a loop is many tensors, but one to its reader.
    std::vector<TensorTraffic> by_source() const {
        std::map<std::tuple<std::string, int, std::string>, std::size_t> places;
        std::vector<TensorTraffic> merged;
        for (const auto& [id, traffic] : tensors_) {
            const auto [at, fresh] =
                places.try_emplace({traffic.name, traffic.line, traffic.kind}, merged.size());
            // Arguments of one name are tensors of their own.
            if (fresh || traffic.kind != "spilled") {
                merged.push_back(traffic);
                continue;
            }
            TensorTraffic& sum = merged[at->second];
            sum.bytes += traffic.bytes;
            sum.read_bytes += traffic.read_bytes;
            sum.written_bytes += traffic.written_bytes;
        }
        return merged;
    }

    TensorTraffic& tensor(nki::TensorId id, bool spilled) {
        const auto [at, fresh] = tensors_.try_emplace({id, spilled});
        if (fresh) {
            if (id < 0) {
                at->second.name = spilled ? "(compiler's tiles)" : "(identity)";
                at->second.kind = spilled ? "spilled" : "constant";
            } else {
                const nki::Tensor& t = program_.tensors[id];
                at->second.name = t.name;
                at->second.kind = spilled ? "spilled" : kind_of(t);
                at->second.line = t.line;
            }
        }
        return at->second;
    }

    void count(const Instruction& instruction) {
        const auto side = [&](const Operand& operand, std::int64_t TensorTraffic::*bytes,
                              std::int64_t moved) {
            const Tile& tile = stream_.tiles[operand.tile];
            if (tile.buffer != nki::Buffer::kHbm) return;
            TensorTraffic& traffic = tensor(tile.tensor, false);
            traffic.bytes = std::max(traffic.bytes, tile.hbm_bytes);
            traffic.*bytes += moved;
        };
        side(instruction.src[0], &TensorTraffic::read_bytes, source_bytes(instruction));
        side(instruction.dst, &TensorTraffic::written_bytes, target_bytes(instruction));
    }

    /// Clean reloads bring an input's elements back, which HBM held anyway; which input is not
    /// known any more.
    void count_spill(const Instruction& instruction) {
        TensorTraffic& traffic = tensor(spilled_tensor(stream_, instruction), true);
        const bool save = instruction.op == StreamOp::kSpill;
        const Operand& copy = save ? instruction.dst : instruction.src[0];
        if (!saved_[copy.tile]) {
            saved_[copy.tile] = true;
            traffic.bytes += instruction.bytes;
        }
        (save ? traffic.written_bytes : traffic.read_bytes) += instruction.bytes;
    }

    const nki::Program& program_;
    const Stream& stream_;
    std::map<std::pair<nki::TensorId, bool>, TensorTraffic> tensors_;
    std::vector<bool> saved_;
};

}  // namespace

std::vector<TensorTraffic> tensor_traffic(const nki::Program& program, const Stream& stream) {
    return Traffic(program, stream).run();
}

}  // namespace accelopt::trainium
