#include <catch2/catch.hpp>
#include <vector>

#include "trainium/written_map.h"
#include "unit/trainium/execute_builder.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::execution;
using accelopt::trainium::testing::pick;

namespace {

std::vector<std::int64_t> addresses(const Access& access, const Space& space) {
    std::vector<std::int64_t> all;
    for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
        Extents index = outer;
        for (std::int64_t i = begin; i < end; ++i) {
            index[space.rank - 1] = i;
            all.push_back(offset_at(access, index, space.rank));
        }
    });
    return all;
}

}  // namespace

TEST_CASE("the written map agrees with one flag per element") {
    auto random = RandomStream::keyed(11, "written");
    for (int trial = 0; trial < 400; ++trial) {
        INFO("trial " << trial);
        const std::int64_t rows = pick(random, 1, 6);
        const std::int64_t columns = pick(random, 1, 150);
        WrittenMap map(rows, columns);
        std::vector<char> flags(static_cast<std::size_t>(rows * columns), 0);
        const auto draw = [&](Access& access, Space& space) {
            space = Space{};
            access = Access{};
            const bool tall = random.below(2) == 0;  // all rows
            const std::int64_t r = tall ? rows : pick(random, 1, rows);
            const std::int64_t r0 = tall ? 0 : pick(random, 0, rows - r);
            const std::int64_t step = random.below(3) == 0 ? pick(random, 2, 3) : 1;
            const bool wide = random.below(3) == 0 && step == 1;
            const std::int64_t c = wide ? columns : pick(random, 1, (columns - 1) / step + 1);
            const std::int64_t c0 = wide ? 0 : pick(random, 0, columns - ((c - 1) * step + 1));
            space.rank = 2;
            space.count = {r, c};
            access.stride = {columns, step};
            access.offset = r0 * columns + c0;
            if (random.below(4) == 0) {
                access.offset += step * (c - 1);
                access.stride[1] = -step;
            }
            if (random.below(5) == 0) access.stride[0] = 0;
            if (random.below(5) == 0) {
                nki::MaskTerm term;
                term.constant = pick(random, 0, c);
                term.coefficients[0] = pick(random, -2, 2);
                term.coefficients[1] = random.below(2) == 0 ? 1 : -1;
                space.coupled.push_back(term);
            }
        };
        for (int step = 0; step < 12; ++step) {
            Access access;
            Space space;
            draw(access, space);
            if (random.below(2) == 0) {
                map.write(access, space);
                for (const std::int64_t at : addresses(access, space)) flags[at] = 1;
            } else {
                bool all = true;
                for (const std::int64_t at : addresses(access, space)) all = all && flags[at];
                REQUIRE(map.written(access, space) == all);
            }
            std::int64_t missing = 0;
            for (const char flag : flags) missing += flag == 0;
            REQUIRE(map.unwritten() == missing);
        }
    }
}

TEST_CASE("masks become boxes or intervals that hold exactly the active indices") {
    auto random = RandomStream::keyed(11, "masks");
    for (int trial = 0; trial < 400; ++trial) {
        INFO("trial " << trial);
        nki::View view;
        view.rank = static_cast<int>(pick(random, 1, 3));
        for (int d = 0; d < view.rank; ++d) view.dims[d].count = pick(random, 1, 7);
        std::vector<nki::MaskTerm> mask(static_cast<std::size_t>(pick(random, 0, 3)));
        for (nki::MaskTerm& term : mask) {
            term.constant = pick(random, -6, 12);
            for (int d = 0; d < view.rank; ++d) {
                term.coefficients[d] = random.below(2) == 0 ? 0 : pick(random, -3, 3);
            }
        }
        std::vector<std::array<std::int64_t, nki::kMaxDims>> want;
        Extents count{};
        for (int d = 0; d < view.rank; ++d) count[d] = view.dims[d].count;
        Extents index{};
        do {
            bool on = true;
            for (const nki::MaskTerm& term : mask) {
                std::int64_t sum = term.constant;
                for (int d = 0; d < view.rank; ++d) sum += term.coefficients[d] * index[d];
                on = on && sum >= 0;
            }
            if (on) want.push_back(index);
        } while (advance(index, count, view.rank));
        const Space space = masked_space(view, mask);
        std::vector<std::array<std::int64_t, nki::kMaxDims>> got;
        for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                Extents at = outer;
                at[space.rank - 1] = i;
                for (int d = 0; d < space.rank; ++d) at[d] += space.begin[d];
                got.push_back(at);
            }
        });
        REQUIRE(got == want);
    }
}

TEST_CASE("mask terms with extreme coefficients do not overflow") {
    nki::View view;
    view.rank = 2;
    view.dims[0].count = 4;
    view.dims[1].count = 4;
    std::vector<nki::MaskTerm> mask(1);
    mask[0].constant = INT64_MIN;
    mask[0].coefficients = {INT64_MAX, INT64_MAX};
    const Space space = masked_space(view, mask);
    std::int64_t active = 0;
    for_each_run(space, [&](const Extents&, std::int64_t begin, std::int64_t end) {
        active += end - begin;
    });
    REQUIRE(active == 13);  // i + j >= 2
}

TEST_CASE("gaps are exactly the elements that were not written") {
    auto random = RandomStream::keyed(11, "gaps");
    for (int trial = 0; trial < 200; ++trial) {
        INFO("trial " << trial);
        const std::int64_t rows = pick(random, 1, 5);
        const std::int64_t columns = pick(random, 1, 200);
        WrittenMap map(rows, columns);
        std::vector<char> flags(static_cast<std::size_t>(rows * columns), 0);
        const std::int64_t writes = pick(random, 0, 4);
        for (std::int64_t k = 0; k < writes; ++k) {
            Space space;
            space.rank = 2;
            const bool all_rows = random.below(2) == 0;
            const std::int64_t r = all_rows ? rows : pick(random, 1, rows);
            const std::int64_t c = pick(random, 1, columns);
            space.count = {r, c};
            Access access;
            access.stride = {columns, 1};
            access.offset = pick(random, 0, rows - r) * columns + pick(random, 0, columns - c);
            map.write(access, space);
            for (const std::int64_t at : addresses(access, space)) flags[at] = 1;
        }
        std::int64_t last = 0;
        map.for_each_gap([&](std::int64_t begin, std::int64_t count) {
            REQUIRE(begin >= last);
            for (std::int64_t i = begin; i < begin + count; ++i) {
                REQUIRE(flags[i] == 0);
                flags[i] = 2;
            }
            last = begin + count;
        });
        for (const char flag : flags) REQUIRE(flag != 0);
    }
}
