#include "nki/loops.h"

#include <functional>

namespace accelopt::nki::interp {
namespace {

const char* kind_name(LoopKind kind) {
    switch (kind) {
        case LoopKind::kRange:
            return "range";
        case LoopKind::kAffine:
            return "affine_range";
        case LoopKind::kSequential:
            return "sequential_range";
        case LoopKind::kStatic:
            return "static_range";
        case LoopKind::kWhile:
            return "while";
    }
    return "range";
}

}  // namespace

std::size_t LoopTracker::KeyHash::operator()(const Key& key) const {
    std::size_t hash = std::hash<const void*>()(key.statement);
    hash = hash * 1000003U ^ std::hash<int>()(key.parent);
    return hash * 1000003U ^ std::hash<std::int64_t>()(key.trip_count);
}

LoopTracker::LoopTracker(std::vector<Loop>& loops) : loops_(loops) { nodes_.push_back({}); }

int LoopTracker::enter(const void* statement, LoopKind kind, const std::string& variable,
                       std::int64_t trip_count, int line) {
    const Key key{statement, innermost_loop(), trip_count};
    const auto [it, added] = known_.try_emplace(key, static_cast<int>(loops_.size()));
    if (added) {
        Loop loop;
        loop.parent = key.parent;
        loop.variable = variable;
        loop.kind = kind_name(kind);
        loop.trip_count = trip_count;
        loop.line = line;
        loops_.push_back(std::move(loop));
        kinds_.push_back(kind);
    }
    active_.push_back({it->second, ++entries_, -1, -1});
    return depth();
}

void LoopTracker::next_iteration() {
    ++active_.back().iteration;
    active_.back().node = -1;
}

void LoopTracker::leave() { active_.pop_back(); }

int LoopTracker::context() { return context_outside(depth() + 1); }

int LoopTracker::context_outside(int depth) {
    int parent = 0;
    for (int d = 0; d < depth - 1; ++d) {
        Active& active = active_[d];
        if (active.node < 0) {
            IterationNode node;
            node.parent = parent;
            node.depth = d + 1;
            node.loop = active.loop;
            node.entry = active.entry;
            node.iteration = active.iteration;
            node.affine_depth =
                nodes_[parent].affine_depth + (kinds_[active.loop] == LoopKind::kAffine ? 1 : 0);
            active.node = static_cast<int>(nodes_.size());
            nodes_.push_back(node);
        }
        parent = active.node;
    }
    return parent;
}

int LoopTracker::separating_loop(int a, int b) const {
    while (a != b) {
        if (nodes_[a].depth > nodes_[b].depth) {
            if (nodes_[a].parent == b) return -1;
            a = nodes_[a].parent;
        } else if (nodes_[b].depth > nodes_[a].depth) {
            if (nodes_[b].parent == a) return -1;
            b = nodes_[b].parent;
        } else {
            if (nodes_[a].parent == nodes_[b].parent)
                return nodes_[a].entry == nodes_[b].entry ? nodes_[a].loop : -1;
            a = nodes_[a].parent;
            b = nodes_[b].parent;
        }
    }
    return -1;
}

int LoopTracker::ended_scope(int context) {
    int ended = -1;
    for (int index = context; index != 0; index = nodes_[index].parent) {
        const IterationNode& node = nodes_[index];
        const int d = node.depth - 1;
        const bool running =
            d < depth() && active_[d].entry == node.entry && active_[d].iteration == node.iteration;
        if (running) break;  // so do all iterations around it
        const LoopKind kind = kinds_[node.loop];
        if (kind != LoopKind::kStatic && kind != LoopKind::kWhile) ended = node.loop;
    }
    return ended;
}

}  // namespace accelopt::nki::interp
