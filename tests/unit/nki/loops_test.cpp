#include "nki/loops.h"

#include <catch2/catch.hpp>

#include "nki/accesses.h"

namespace accelopt::nki::interp {
namespace {

View free_view(std::int64_t offset, std::int64_t count, std::int64_t stride = 1) {
    View view;
    view.tensor = 0;
    view.offset = offset;
    view.rank = 2;
    view.dims[0] = {100, 16};
    view.dims[1] = {stride, count};
    return view;
}

}  // namespace

TEST_CASE("one loop statement is one loop, whatever surrounds it runs again", "[nki][loops]") {
    std::vector<Loop> loops;
    LoopTracker tracker(loops);
    const int outer = 1;
    const int inner = 2;
    for (int run = 0; run < 2; ++run) {
        tracker.enter(&outer, LoopKind::kAffine, "i", 2, 1);
        for (int i = 0; i < 2; ++i) {
            tracker.next_iteration();
            tracker.enter(&inner, LoopKind::kSequential, "j", 3, 2);
            tracker.next_iteration();
            CHECK(tracker.innermost_loop() == 1);
            tracker.leave();
        }
        tracker.leave();
    }
    REQUIRE(loops.size() == 2);
    CHECK(loops[1].parent == 0);
    CHECK(loops[1].trip_count == 3);
    CHECK(tracker.innermost_loop() == -1);
}

TEST_CASE("the separating loop of two iterations is the outermost one", "[nki][loops]") {
    std::vector<Loop> loops;
    LoopTracker tracker(loops);
    const int outer = 1;
    const int inner = 2;
    std::vector<int> contexts;
    const int body = tracker.context();
    tracker.enter(&outer, LoopKind::kSequential, "i", 2, 1);
    for (int i = 0; i < 2; ++i) {
        tracker.next_iteration();
        tracker.enter(&inner, LoopKind::kAffine, "j", 2, 2);
        for (int j = 0; j < 2; ++j) {
            tracker.next_iteration();
            contexts.push_back(tracker.context());
            CHECK(tracker.context() == contexts.back());
        }
        tracker.leave();
    }
    CHECK(tracker.separating_loop(contexts[0], contexts[1]) == 1);
    CHECK(tracker.separating_loop(contexts[0], contexts[2]) == 0);
    CHECK(tracker.separating_loop(contexts[0], contexts[0]) == -1);
    CHECK(tracker.separating_loop(body, contexts[3]) == -1);
    CHECK(tracker.affine_between(body, contexts[3]));
    CHECK(tracker.ended_scope(contexts[3]) == 1);
    CHECK(tracker.ended_scope(contexts[0]) == 0);
    tracker.leave();
    CHECK(tracker.ended_scope(body) == -1);
}

TEST_CASE("regions overlap exactly where their elements do", "[nki][loops]") {
    Tensor tensor;
    tensor.buffer = Buffer::kSbuf;
    tensor.partitions = 16;
    tensor.free_elements = 100;
    const auto meet = [&](const View& a, const View& b) {
        Overlaps overlaps(1000);
        return overlaps(region_of(a, tensor), region_of(b, tensor));
    };
    CHECK(meet(free_view(0, 10), free_view(9, 10)));
    CHECK_FALSE(meet(free_view(0, 10), free_view(10, 10)));
    View rows = free_view(0, 5);  // runs of 5, 20 apart
    rows.rank = 3;
    rows.dims[1] = {20, 4};
    rows.dims[2] = {1, 5};
    CHECK(meet(rows, free_view(22, 3)));
    CHECK_FALSE(meet(rows, free_view(25, 10)));
    CHECK(meet(rows, rows));
    View upper = free_view(800, 10);  // partitions 8 to 15
    upper.dims[0] = {100, 8};
    View lower = free_view(0, 10);
    lower.dims[0] = {100, 8};
    CHECK_FALSE(meet(upper, lower));
    CHECK(meet(upper, free_view(0, 10)));
}

}  // namespace accelopt::nki::interp
