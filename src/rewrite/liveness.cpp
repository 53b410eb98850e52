#include "rewrite/liveness.h"

#include <algorithm>
#include <map>

#include "rewrite/index.h"
#include "rewrite/operation.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::Stmt;
using nki::StmtKind;

namespace {

constexpr std::int64_t kBeyondMemory = std::int64_t{1} << 30;

/// Position of the partition dimension in an allocation's shape.
std::size_t partition_axis(const Kernel& kernel, const Expr& allocation) {
    const Expr* extents = argument(allocation, 0, "shape");
    if (!extents || extents->kind != ExprKind::kTuple) return 0;
    for (std::size_t i = 0; i < extents->operands.size(); ++i) {
        if (kernel.callee(*extents->operands[i]) == "nl.par_dim") return i;
    }
    return 0;
}

std::int64_t bytes_without(const Kernel& kernel, const std::string& name,
                           const std::set<std::size_t>& skipped) {
    const Expr* made = kernel.allocation(name);
    const auto extents = kernel.shape(made ? *made : *kernel.binding(name)->values.front());
    if (!extents) return 0;
    const std::size_t partition = made ? partition_axis(kernel, *made) : 0;
    std::int64_t bytes = kElementBytes;
    for (std::size_t i = 0; i < extents->size(); ++i) {
        if (i == partition || skipped.count(i) > 0) continue;
        // Beyond any memory it no longer matters how far.
        bytes = std::min(bytes, kBeyondMemory) * std::min((*extents)[i], kBeyondMemory);
    }
    return bytes;
}

}  // namespace

std::int64_t array_bytes(const Kernel& kernel, const std::string& name) {
    const Binding* bound = kernel.binding(name);
    if (!bound || bound->values.empty() || bound->parameter) return 0;
    const std::string buffer = kernel.buffer(name);
    if (buffer == "hbm" || buffer == "psum") return 0;
    return bytes_without(kernel, name, {});
}

std::set<std::size_t> own_dimensions(Kernel& kernel, const std::string& name) {
    std::vector<Stmt*> common;
    bool first = true;
    std::vector<std::vector<Index>> accesses;
    for (const Place& place : places(kernel.body())) {
        bool touched = false;
        auto look = [&](const Expr& node) {
            if (node.kind == ExprKind::kName && node.text == name) touched = true;
            if (node.kind == ExprKind::kSubscript && node.operands[0]->kind == ExprKind::kName &&
                node.operands[0]->text == name) {
                accesses.push_back(read_indices(kernel, node));
            }
            return true;
        };
        const bool allocates = kernel.binding(name)->stmt == place.stmt;
        if (!allocates && place.stmt->kind != StmtKind::kFor) {
            for (const auto& target : place.stmt->targets) visit(*target, look);
            if (place.stmt->value) visit(*place.stmt->value, look);
        }
        if (!touched) continue;
        if (first) common = place.loops;
        first = false;
        std::size_t same = 0;
        while (same < common.size() && same < place.loops.size() &&
               common[same] == place.loops[same]) {
            ++same;
        }
        common.resize(same);
    }
    std::set<std::size_t> out;
    for (std::size_t d = 0; !accesses.empty() && d < accesses[0].size(); ++d) {
        bool own = true;
        for (const auto& indices : accesses) {
            bool fixed = false;
            for (const Stmt* loop : common) {
                fixed = fixed || (d < indices.size() && indices[d].kind == IndexKind::kPoint &&
                                  loop->targets[0]->kind == ExprKind::kName &&
                                  indices[d].offset.depends_on(loop->targets[0]->text));
            }
            own = own && fixed;
        }
        if (own) out.insert(d);
    }
    return out;
}

std::int64_t live_bytes(Kernel& kernel, Stmt& loop) {
    struct Span {
        int first = -1;
        int last = -1;
        bool dma = false;
    };
    std::map<std::string, Span> spans;
    const auto list = places(loop.body);
    std::map<std::string, int> inside;
    std::map<std::string, int> all;
    auto count = [&](std::map<std::string, int>& counts) {
        return [&](const Expr& node) {
            if (node.kind == ExprKind::kName) ++counts[kernel.memory(node.text)];
            return true;
        };
    };
    visit(kernel.body(), count(all));
    visit(loop.body, count(inside));
    auto touch = [&](const std::string& spelled, int position, bool dma) {
        const std::string name = kernel.memory(spelled);
        const Binding* bound = kernel.binding(name);
        if (!bound || bound->values.empty() || bound->parameter || bound->loop_variable) return;
        const std::string buffer = kernel.buffer(name);
        if (buffer == "hbm" || buffer == "psum") return;
        Span& span = spans[name];
        if (span.first < 0) span.first = position;
        span.last = position;
        span.dma = span.dma || dma;
    };
    for (std::size_t i = 0; i < list.size(); ++i) {
        const Stmt& stmt = *list[i].stmt;
        const int position = static_cast<int>(i);
        if (stmt.kind == StmtKind::kFor) continue;
        const std::string path = stmt.value ? kernel.callee(*stmt.value) : "";
        for (const auto& target : stmt.targets) {
            touch(base_name(*target), position, path == "nl.load");
        }
        auto use = [&](const Expr& node) {
            if (node.kind == ExprKind::kName) touch(node.text, position, path == "nl.store");
            return true;
        };
        for (const auto& target : stmt.targets) visit(*target, use);
        if (stmt.value) visit(*stmt.value, use);
    }
    std::int64_t kept = 0;
    std::int64_t rotating = 0;
    std::vector<std::int64_t> at(list.size() + 1, 0);
    for (const auto& [name, span] : spans) {
        const std::int64_t bytes = bytes_without(kernel, name, own_dimensions(kernel, name));
        const Expr* made = kernel.allocation(name);
        // The binding itself may stand outside.
        if (inside[name] + (made ? 1 : 0) < all[name]) {
            kept += bytes;
            continue;
        }
        if (span.dma) rotating += bytes;
        for (int i = span.first; i <= span.last; ++i) at[static_cast<std::size_t>(i)] += bytes;
    }
    return kept + rotating + *std::max_element(at.begin(), at.end());
}

}  // namespace accelopt::rewrite
