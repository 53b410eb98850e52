#include <algorithm>

#include "rewrite/liveness.h"
#include "rewrite/retile.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

using nki::Module;
using nki::Stmt;
using nki::StmtKind;

namespace {

/// Tiles wider than this gain nothing more from amortising fixed costs.
constexpr std::int64_t kWidestTile = 16384;

std::vector<std::vector<std::size_t>> loops_below(Kernel& kernel, const Stmt* root) {
    std::vector<std::vector<std::size_t>> out;
    for (const Place& place : places(kernel.body())) {
        const bool below =
            !root || std::find(place.loops.begin(), place.loops.end(), root) != place.loops.end();
        if (below && place.stmt->kind == StmtKind::kFor && !place.guarded) {
            out.push_back(path_to(kernel, *place.stmt));
        }
    }
    return out;
}

/// Makes one instruction of every loop over parts of a tile below `root_path`, innermost first.
Kernel merge_below(Kernel kernel, const std::vector<std::size_t>& root_path) {
    auto paths = loops_below(kernel, at_path(kernel, root_path));
    std::reverse(paths.begin(), paths.end());
    for (const auto& path : paths) {
        Stmt* loop = at_path(kernel, path);
        const auto tiled = analyse_tiling(kernel, *loop);
        if (!tiled || tiled->touches_hbm) continue;
        auto merged = widen(kernel.clone(), path, tiled->range.trips);
        if (merged) kernel = std::move(*merged);
    }
    return kernel;
}

Stmt* loop_at_line(Kernel& kernel, int line) {
    for (const Place& place : places(kernel.body())) {
        if (place.stmt->kind == StmtKind::kFor && place.stmt->location.line == line) {
            return place.stmt;
        }
    }
    return nullptr;
}

/// Loops that load or store neighbouring slices: fewer, longer transfers and instructions.
class WidenFreeTile : public Rule {
  public:
    std::string name() const override { return "widen_free_tile"; }
    std::string advice() const override {
        return "Wider tiles along the free dimension make longer contiguous DMA runs and fewer "
               "instructions, so the fixed cost of each is paid less often. It helps where DMA or "
               "short instructions are the bound and the tiles still fit on chip.";
    }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        for (const auto& path : loops_below(*kernel, nullptr)) {
            const auto as_written = analyse_tiling(*kernel, *at_path(*kernel, path));
            const bool parts = as_written && as_written->has_parts;
            if (parts) add_sites(*kernel, *kernel, path, true, sites);
            Kernel merged = merge_below(kernel->clone(), path);
            add_sites(*kernel, merged, path, false, sites);
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        Stmt* loop = loop_at_line(*kernel, site.line);
        if (!loop) return Failure{std::string("no loop starts on that line")};
        const auto path = path_to(*kernel, *loop);
        const bool parts = site.parameters.count("parts") > 0;
        Kernel base = parts ? std::move(*kernel) : merge_below(std::move(*kernel), path);
        const auto tiled = analyse_tiling(base, *at_path(base, path));
        if (!tiled) return Failure{tiled.error()};
        const auto width = site.parameters.find("width");
        if (width == site.parameters.end() || width->second <= tiled->width ||
            width->second % tiled->width != 0) {
            return Failure{std::string("that width is no multiple of the tile's")};
        }
        auto out = widened(base, path, width->second / tiled->width);
        if (!out) return Failure{out.error()};
        return out->take();
    }

  private:
    /// `base` is the kernel that is widened: as written, or with loops over parts merged.
    void add_sites(Kernel& kernel, Kernel& base, const std::vector<std::size_t>& path, bool parts,
                   std::vector<Site>& sites) const {
        Stmt* loop = at_path(base, path);
        const auto tiled = analyse_tiling(base, *loop);
        if (!tiled || !tiled->touches_hbm) return;
        for (const std::int64_t factor : factors(base, *loop, *tiled)) {
            if (!widened(base, path, factor)) continue;
            Site site;
            site.rule = name();
            site.line = at_path(kernel, path)->location.line;
            site.parameters["width"] = tiled->width * factor;
            if (parts) site.parameters["parts"] = 1;
            site.what = "make the tiles of the loop over " + tiled->range.variable + " " +
                        std::to_string(tiled->width * factor) + " elements wide instead of " +
                        std::to_string(tiled->width) + ", " +
                        std::to_string(tiled->range.trips / factor) + " iterations instead of " +
                        std::to_string(tiled->range.trips) +
                        (parts ? ", still computing them in the same parts" : "");
            site.relieves = parts ? "DMA" : "DMA ACT DVE";
            site.benefit = 1.5 * static_cast<double>(std::min<std::int64_t>(factor, 8));
            sites.push_back(std::move(site));
        }
    }

    static std::vector<std::int64_t> factors(Kernel& kernel, Stmt& loop, const TiledLoop& tiled) {
        std::vector<std::int64_t> out;
        const std::int64_t live = live_bytes(kernel, loop);
        for (std::int64_t f = 2; f <= tiled.range.trips; ++f) {
            if (tiled.range.trips % f != 0) continue;
            if (tiled.width * f > kWidestTile) break;
            if (live > 0 && live * f > 2 * kPartitionBytes) break;
            out.push_back(f);
        }
        // The widest few are what matters.
        if (out.size() > 5) out.erase(out.begin(), out.end() - 5);
        return out;
    }

    static Result<Kernel, std::string> widened(const Kernel& kernel,
                                               const std::vector<std::size_t>& path,
                                               std::int64_t factor) {
        auto out = widen(kernel.clone(), path, factor);
        if (!out) return out;
        if (live_bytes(*out, *at_path(*out, path)) > kPartitionBytes) {
            return Failure{std::string("the tiles would not fit on chip")};
        }
        return out;
    }
};

/// Loops over parts of a tile that is already on chip.
class MergeSubtiles : public Rule {
  public:
    std::string name() const override { return "merge_subtiles"; }
    std::string advice() const override {
        return "A tile that is on chip can be processed by one instruction instead of a loop over "
               "its parts: the fixed cost of every instruction is paid once per tile. It helps "
               "where ScalarE or VectorE is busy.";
    }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        for (const auto& path : loops_below(*kernel, nullptr)) {
            Stmt* loop = at_path(*kernel, path);
            const auto tiled = analyse_tiling(*kernel, *loop);
            if (!tiled || tiled->touches_hbm || tiled->elementwise_operations == 0) continue;
            if (!merge(*kernel, path, tiled->range.trips)) continue;
            Site site;
            site.rule = name();
            site.line = loop->location.line;
            site.what =
                "process whole tiles of " + std::to_string(tiled->width * tiled->range.trips) +
                " elements instead of " + std::to_string(tiled->range.trips) + " parts of " +
                std::to_string(tiled->width) + " (loop over " + tiled->range.variable + ")";
            site.relieves = "ACT DVE";
            site.benefit = 1.2;
            sites.push_back(std::move(site));
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        Stmt* loop = loop_at_line(*kernel, site.line);
        if (!loop) return Failure{std::string("no loop starts on that line")};
        const auto tiled = analyse_tiling(*kernel, *loop);
        if (!tiled) return Failure{tiled.error()};
        if (tiled->touches_hbm) return Failure{std::string("the loop walks over HBM")};
        auto out = merge(*kernel, path_to(*kernel, *loop), tiled->range.trips);
        if (!out) return Failure{out.error()};
        return out->take();
    }

  private:
    static Result<Kernel, std::string> merge(const Kernel& kernel,
                                             const std::vector<std::size_t>& path,
                                             std::int64_t trips) {
        auto out = widen(kernel.clone(), path, trips);
        if (!out) return out;
        // The loop around holds the whole tiles.
        auto outer = path;
        outer.pop_back();
        Stmt* around = outer.empty() ? at_path(*out, path) : at_path(*out, outer);
        if (live_bytes(*out, *around) > kPartitionBytes) {
            return Failure{std::string("the tiles would not fit on chip")};
        }
        return out;
    }
};

}  // namespace

std::unique_ptr<Rule> make_widen_free_tile() { return std::make_unique<WidenFreeTile>(); }
std::unique_ptr<Rule> make_merge_subtiles() { return std::make_unique<MergeSubtiles>(); }

}  // namespace accelopt::rewrite
