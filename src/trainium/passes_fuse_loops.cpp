#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "trainium/passes.h"
#include "trainium/timing_schedule.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

/// Pairs of loops that are tried, and instructions moved in all tries together (beyond the first
/// few): bounds the work for kernels with very many loops or instructions.
constexpr int kMaxTries = 32;
constexpr int kMinTries = 4;
constexpr std::int64_t kMaxMoved = std::int64_t{1} << 20;

/// A part of a body: a run of a loop, or (run < 0) the instructions [first, end).
struct Item {
    std::int32_t run = -1;
    std::int32_t first = 0;
    std::int32_t end = 0;
};
using Body = std::vector<Item>;

/// One run of a loop; a body per iteration.
struct Run {
    std::int32_t loop = -1;
    std::vector<Body> iterations;
};

/// The instructions of a stream as the loops that made them.
struct LoopTree {
    Body top;
    std::vector<Run> runs;
};

/// By instruction: the operation it belongs to; the compiler's own belong to the one that follows.
/// Empty when instructions do not follow the program.
std::vector<std::int32_t> operations_of(const Stream& stream) {
    std::vector<std::int32_t> operation(stream.instructions.size());
    std::int32_t next = 0x7fffffff;
    for (std::size_t k = operation.size(); k-- > 0;) {
        const std::int32_t own = stream.instructions[k].operation;
        if (own > next) return {};
        operation[k] = next = own >= 0 ? own : next;
    }
    return operation;
}

class TreeBuilder {
  public:
    explicit TreeBuilder(const Stream& stream)
        : iterations_(stream.iterations), operation_(operations_of(stream)) {}

    LoopTree run() {
        LoopTree tree;
        const auto length = static_cast<std::int32_t>(operation_.size());
        fill(tree, tree.top, 0, length, iterations_.size());
        return tree;
    }

  private:
    std::int32_t position(std::int32_t operation) const {
        const auto at = std::lower_bound(operation_.begin(), operation_.end(), operation);
        return static_cast<std::int32_t>(at - operation_.begin());
    }

    /// Makes a body of the instructions [first, end) and of the iterations up to `last`.
    void fill(LoopTree& tree, Body& body, std::int32_t first, std::int32_t end, std::size_t last) {
        std::int32_t run = -1;
        std::int32_t of = -1;  // the run of the program that `run` stands for
        while (next_ < last) {
            const nki::LoopIteration& iteration = iterations_[next_];
            const std::int32_t from = std::clamp(position(iteration.first), first, end);
            const std::int32_t to = std::clamp(position(iteration.end), from, end);
            std::size_t inner = ++next_;
            while (inner < last && iterations_[inner].first < iteration.end) ++inner;
            if (from == to) {  // all of it was removed
                next_ = inner;
                continue;
            }
            if (from > first) body.push_back({-1, first, from});
            if (run < 0 || of != iteration.run) {
                run = static_cast<std::int32_t>(tree.runs.size());
                of = iteration.run;
                tree.runs.push_back({iteration.loop, {}});
                body.push_back({run, from, to});
            }
            Body inside;
            fill(tree, inside, from, to, inner);
            tree.runs[run].iterations.push_back(std::move(inside));
            first = to;
        }
        if (end > first) body.push_back({-1, first, end});
    }

    const std::vector<nki::LoopIteration>& iterations_;
    std::vector<std::int32_t> operation_;
    std::size_t next_ = 0;
};

class Fusing {
  public:
    Fusing(const Stream& stream, const Machine& machine)
        : stream_(stream),
          machine_(machine),
          dependencies_(make_schedule(stream, machine)),
          tree_(TreeBuilder(stream).run()) {
        find_flows();
    }

    /// The order with the least spilled, empty when nothing is fused.
    std::vector<std::int32_t> run() {
        std::int64_t best = spilled_bytes(stream_);
        bool fused = false;
        for (const auto& [first, second] : candidates()) {
            if (best == 0 || !may_try()) break;
            const LoopTree before = tree_;
            if (!fuse(first, second)) continue;
            const std::int64_t spilled = spilled_bytes(reordered(order()));
            if (spilled < best) {
                best = spilled;
                fused = true;
            } else {
                tree_ = before;
            }
        }
        return fused ? order() : std::vector<std::int32_t>{};
    }

    Stream reordered(const std::vector<std::int32_t>& order) const {
        Stream result = stream_;
        for (std::size_t k = 0; k < order.size(); ++k)
            result.instructions[k] = stream_.instructions[order[k]];
        return result;
    }

  private:
    using Pair = std::pair<std::int32_t, std::int32_t>;  ///< loops, in program order

    /// Which loops keep SBUF tiles for which others, and how much: pairs of loops at one depth,
    /// where the paths to a tile's writer and to its reader part and below.
    void find_flows() {
        path_of_.resize(stream_.instructions.size());
        std::vector<std::int32_t> path;
        mark(tree_.top, path);
        std::vector<std::int32_t> writer(stream_.tiles.size(), -1);
        for (std::size_t k = 0; k < path_of_.size(); ++k) {
            const Instruction& instruction = stream_.instructions[k];
            for (int s = 0; s < instruction.sources; ++s) {
                const std::int32_t t = instruction.src[s].tile;
                if (stream_.tiles[t].buffer != Buffer::kSbuf || writer[t] < 0) continue;
                if (path_of_[writer[t]] == path_of_[k]) continue;
                const auto& from = paths_[path_of_[writer[t]]];
                const auto& to = paths_[path_of_[k]];
                const std::size_t depth = std::min(from.size(), to.size());
                for (std::size_t d = 0; d < depth; ++d) {
                    if (from[d] != to[d])
                        flows_[{from[d], to[d]}] += stream_.tiles[t].partition_bytes;
                }
            }
            writer[instruction.dst.tile] = static_cast<std::int32_t>(k);
        }
    }

    /// Notes the path of loops to every instruction.
    void mark(const Body& body, std::vector<std::int32_t>& path) {
        std::int32_t here = -1;
        for (const Item& item : body) {
            if (item.run >= 0) {
                path.push_back(tree_.runs[item.run].loop);
                for (const Body& inside : tree_.runs[item.run].iterations) mark(inside, path);
                path.pop_back();
                continue;
            }
            if (here < 0) {
                here = static_cast<std::int32_t>(paths_.size());
                paths_.push_back(path);
            }
            std::fill(path_of_.begin() + item.first, path_of_.begin() + item.end, here);
        }
    }

    /// Pairs of neighbouring loops with a flow, outer ones first, then those that keep most.
    std::vector<Pair> candidates() const {
        std::vector<std::pair<std::int64_t, Pair>> found;
        std::vector<Pair> result;
        const auto add = [&](const Body& body) {
            found.clear();
            for (std::size_t a = 0; a < body.size(); ++a) {
                for (std::size_t b = a + 1; b < body.size(); ++b) {
                    if (body[a].run < 0 || body[b].run < 0) continue;
                    const Pair pair{tree_.runs[body[a].run].loop, tree_.runs[body[b].run].loop};
                    const auto flow = flows_.find(pair);
                    if (flow == flows_.end()) continue;
                    if (std::find(result.begin(), result.end(), pair) != result.end()) continue;
                    found.emplace_back(-flow->second, pair);
                }
            }
            std::sort(found.begin(), found.end());
            for (const auto& entry : found) result.push_back(entry.second);
        };
        add(tree_.top);
        for (const Run& run : tree_.runs) {
            if (!run.iterations.empty()) add(run.iterations.front());
        }
        return result;
    }

    bool may_try() const {
        const auto moved = tries_ * static_cast<std::int64_t>(stream_.instructions.size());
        return tries_ < kMinTries || (tries_ < kMaxTries && moved < kMaxMoved);
    }

    /// Fuses all neighbouring runs of two loops, and the loops in them that can be. False, and
    /// nothing changed, when that is not legal.
    bool fuse(std::int32_t first, std::int32_t second) {
        ++tries_;
        for (const bool before : {true, false}) {
            const LoopTree saved = tree_;
            std::vector<std::int32_t> merged;
            bool any = fuse_in(tree_.top, first, second, before, merged);
            for (std::size_t r = 0; r < tree_.runs.size(); ++r) {
                // Bodies of runs change in place; runs that were fused away are not visited.
                for (std::size_t i = 0; i < tree_.runs[r].iterations.size(); ++i)
                    any =
                        fuse_in(tree_.runs[r].iterations[i], first, second, before, merged) || any;
            }
            if (any && legal(order())) {
                fuse_inside(merged);
                return true;
            }
            tree_ = saved;
        }
        return false;
    }

    /// Tries the loops in the bodies of fused runs.
    void fuse_inside(const std::vector<std::int32_t>& merged) {
        if (merged.empty() || tree_.runs[merged.front()].iterations.empty()) return;
        const Body body = tree_.runs[merged.front()].iterations.front();
        for (std::size_t a = 0; a < body.size(); ++a) {
            for (std::size_t b = a + 1; b < body.size(); ++b) {
                if (body[a].run < 0 || body[b].run < 0 || !may_try()) continue;
                const Pair pair{tree_.runs[body[a].run].loop, tree_.runs[body[b].run].loop};
                if (flows_.count(pair) != 0) fuse(pair.first, pair.second);
            }
        }
    }

    /// Fuses the runs of two loops in one body; `before`: what stands between them goes first.
    bool fuse_in(Body& body, std::int32_t first, std::int32_t second, bool before,
                 std::vector<std::int32_t>& merged) {
        bool any = false;
        for (std::size_t a = 0; a < body.size(); ++a) {
            if (body[a].run < 0 || tree_.runs[body[a].run].loop != first) continue;
            std::size_t b = a + 1;
            while (b < body.size() && (body[b].run < 0 || tree_.runs[body[b].run].loop != second))
                ++b;
            if (b == body.size()) break;
            Run& one = tree_.runs[body[a].run];
            Run& other = tree_.runs[body[b].run];
            if (one.iterations.size() != other.iterations.size()) continue;
            for (std::size_t i = 0; i < one.iterations.size(); ++i) {
                one.iterations[i].insert(one.iterations[i].end(), other.iterations[i].begin(),
                                         other.iterations[i].end());
            }
            other.iterations.clear();
            merged.push_back(body[a].run);
            body.erase(body.begin() + static_cast<std::ptrdiff_t>(b));
            if (before) {
                std::rotate(body.begin() + static_cast<std::ptrdiff_t>(a),
                            body.begin() + static_cast<std::ptrdiff_t>(a) + 1,
                            body.begin() + static_cast<std::ptrdiff_t>(b));
                a = b - 1;
            }
            any = true;
        }
        return any;
    }

    std::vector<std::int32_t> order() const {
        std::vector<std::int32_t> order;
        order.reserve(stream_.instructions.size());
        flatten(tree_.top, order);
        return order;
    }

    void flatten(const Body& body, std::vector<std::int32_t>& order) const {
        for (const Item& item : body) {
            if (item.run < 0) {
                for (std::int32_t k = item.first; k < item.end; ++k) order.push_back(k);
                continue;
            }
            for (const Body& inside : tree_.runs[item.run].iterations) flatten(inside, order);
        }
    }

    /// True when every instruction comes after those it depends on.
    bool legal(const std::vector<std::int32_t>& order) const {
        std::vector<std::int32_t> place(static_cast<std::size_t>(dependencies_.nodes), -1);
        for (std::size_t k = 0; k < order.size(); ++k)
            place[order[k]] = static_cast<std::int32_t>(k);
        const auto holds = [&](const Adjacency& edges, std::int32_t node) {
            for (std::int32_t e = edges.first[node]; e < edges.first[node + 1]; ++e) {
                const std::int32_t next = edges.items[e];
                if (next >= dependencies_.instructions) {  // a join: as late as the last before it
                    place[next] = std::max(place[next], place[node]);
                } else if (place[next] <= place[node]) {
                    return false;
                }
            }
            return true;
        };
        // Joins are numbered as they arise: all that a join waits for comes before it.
        for (std::int32_t node = 0; node < dependencies_.nodes; ++node) {
            if (!holds(dependencies_.after_result, node)) return false;
            if (!holds(dependencies_.after_issue, node)) return false;
        }
        return true;
    }

    std::int64_t spilled_bytes(Stream stream) const {
        insert_spills(stream, machine_);
        std::int64_t bytes = 0;
        for (const Instruction& instruction : stream.instructions) {
            if (instruction.op == StreamOp::kSpill || instruction.op == StreamOp::kReload)
                bytes += instruction.bytes;
        }
        return bytes;
    }

    const Stream& stream_;
    const Machine& machine_;
    Schedule dependencies_;
    LoopTree tree_;
    std::vector<std::vector<std::int32_t>> paths_;  ///< of loops, one per body
    std::vector<std::int32_t> path_of_;             ///< by instruction
    std::map<Pair, std::int64_t> flows_;
    int tries_ = 0;
};

}  // namespace

void fuse_loops(Stream& stream, const Machine& machine) {
    if (stream.iterations.empty()) return;
    if (!overflows_sbuf(stream, machine)) return;
    Fusing fusing(stream, machine);
    const std::vector<std::int32_t> order = fusing.run();
    if (order.empty()) return;
    stream = fusing.reordered(order);
    stream.iterations.clear();
}

}  // namespace accelopt::trainium
