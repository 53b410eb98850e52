#include "nki/iteration_space.h"

#include <catch2/catch.hpp>

#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

/// A draft of an SBUF view: dims are count, stride pairs.
Draft draft_of(std::vector<std::pair<std::int64_t, std::int64_t>> dims) {
    static Tile tile;
    Draft draft;
    draft.tile = &tile;
    for (const auto& [count, stride] : dims) {
        draft.count[draft.rank] = count;
        draft.address.step[draft.rank++] = stride;
    }
    return draft;
}

std::vector<std::int64_t> counts(const IterationSpace& space) {
    std::vector<std::int64_t> all;
    for (int d = 0; d < space.rank(); ++d) all.push_back(space.count(d));
    return all;
}

using Counts = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("operands broadcast, split and merge to one space", "[nki][space]") {
    IterationSpace space({128, 512});
    REQUIRE(space.add(draft_of({{128, 512}, {512, 1}})));
    REQUIRE(space.add(draft_of({{128, 640}, {8, 80}, {64, 1}})));
    REQUIRE(space.add(draft_of({{128, 1}, {1, 1}})));
    REQUIRE_FALSE(space.add(draft_of({{128, 1}, {3, 1}})));
    space.simplify();
    CHECK(counts(space) == Counts{128, 8, 64});
    CHECK(space.operands()[0].address.step[1] == 64);
    CHECK(space.operands()[2].address.step[1] == 0);
    CHECK(space.operands()[2].address.step[2] == 0);
}

TEST_CASE("splits meet in the common refinement", "[nki][space]") {
    IterationSpace space({4, 6, 4});
    REQUIRE(space.add(draft_of({{4, 100}, {6, 10}, {4, 1}})));
    REQUIRE(space.add(draft_of({{4, 100}, {3, 30}, {8, 2}})));
    space.simplify();
    CHECK(counts(space) == Counts{4, 3, 2, 4});
    CHECK(space.operands()[0].address.step[1] == 20);
    CHECK(space.operands()[0].address.step[2] == 10);
    CHECK(space.operands()[1].address.step[1] == 30);
    CHECK(space.operands()[1].address.step[2] == 8);
    CHECK(space.operands()[1].address.step[3] == 2);
    IterationSpace other({4, 6, 4});
    REQUIRE_FALSE(other.add(draft_of({{4, 100}, {4, 6}, {6, 1}})));
}

TEST_CASE("dims of one element vanish and contiguous dims merge", "[nki][space]") {
    IterationSpace space({128, 1, 4, 16, 1});
    REQUIRE(space.add(draft_of({{128, 64}, {1, 7}, {4, 16}, {16, 1}, {1, 9}})));
    space.simplify();
    CHECK(counts(space) == Counts{128, 64});
    CHECK(space.operands()[0].address.step[1] == 1);
}

TEST_CASE("a slanted mask keeps dims apart and survives", "[nki][space]") {
    IterationSpace space({8, 4, 16});
    AffineExpr term;
    term.rank = 3;
    term.axes[0] = {1, 8};
    term.axes[1] = {-1, 4};
    MaskExpr mask;
    mask.terms.push_back(term);
    REQUIRE(space.add_mask(mask));
    REQUIRE(space.add(draft_of({{8, 64}, {4, 16}, {16, 1}})));
    REQUIRE(space.apply_mask());
    space.simplify();
    CHECK(counts(space) == Counts{8, 4, 16});
    REQUIRE(space.mask().size() == 1);
}

TEST_CASE("a reduction merges reduced and kept dims apart", "[nki][space]") {
    IterationSpace space({128, 2, 4, 8, 16});
    REQUIRE(space.add_reduced(draft_of({{128, 8}, {2, 4}, {4, 1}}), 1U << 3 | 1U << 4));
    REQUIRE(space.add(draft_of({{128, 1024}, {2, 512}, {4, 128}, {8, 16}, {16, 1}})));
    space.simplify();
    CHECK(counts(space) == Counts{128, 8, 128});
    CHECK_FALSE(space.reduced(1));
    CHECK(space.reduced(2));
    CHECK(space.operands()[0].address.step[1] == 1);
    CHECK(space.operands()[0].address.step[2] == 0);
}

}  // namespace accelopt::nki::interp
