#include "nki/regions.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "nki/accesses.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

constexpr std::int64_t kRow = 97;

Tensor matrix(Buffer buffer) {
    Tensor tensor;
    tensor.id = 0;
    tensor.buffer = buffer;
    tensor.role = TensorRole::kOutput;
    tensor.shape = {16, kRow};
    tensor.partitions = 16;
    tensor.free_elements = kRow;
    return tensor;
}

/// A stream of small numbers, the same in every run.
class Numbers {
  public:
    std::int64_t below(std::int64_t n) {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<std::int64_t>((state_ >> 33) % static_cast<std::uint64_t>(n));
    }

  private:
    std::uint64_t state_ = 7;
};

View random_view(Numbers& numbers, bool on_chip) {
    View view;
    view.tensor = 0;
    view.rank = static_cast<int>(1 + numbers.below(4)) + (on_chip ? 1 : 0);
    view.offset = 60 + numbers.below(40);
    for (int d = 0; d < view.rank; ++d) {
        const std::int64_t sign = numbers.below(4) == 0 ? -1 : 1;
        const std::int64_t strides[] = {0, 1, 2, 3, 5, 8, 12, 24, 40, 97};
        view.dims[d] = {sign * strides[numbers.below(10)], 1 + numbers.below(4)};
    }
    if (on_chip) {
        view.dims[0] = {kRow, 1 + numbers.below(5)};
        view.offset = numbers.below(5) * kRow + 40 + numbers.below(20);
    }
    return view;
}

std::set<std::int64_t> elements(const View& view) {
    std::set<std::int64_t> all{view.offset};
    for (int d = 0; d < view.rank; ++d) {
        std::set<std::int64_t> grown;
        for (const std::int64_t at : all)
            for (std::int64_t k = 0; k < view.dims[d].count; ++k)
                grown.insert(at + k * view.dims[d].stride);
        all = std::move(grown);
    }
    return all;
}

/// Of an HBM tensor without other structure.
View line(std::int64_t offset, std::int64_t count, std::int64_t stride) {
    View view;
    view.tensor = 0;
    view.rank = 1;
    view.offset = offset;
    view.dims[0] = {stride, count};
    return view;
}

/// Views of one tensor, each in an iteration of its own of one affine loop.
class AffineLoop {
  public:
    explicit AffineLoop(std::int64_t budget = 10'000'000)
        : tracker_(loops_), accesses_(tracker_, budget) {
        tracker_.enter(this, LoopKind::kAffine, "i", 1'000'000, 1);
    }
    bool write(const View& view) {
        tracker_.next_iteration();
        return accesses_.on_write(view, tensor_, tracker_.context(), AluOp::kNone, 2).loop >= 0;
    }
    bool read(const View& view) {
        tracker_.next_iteration();
        return accesses_.on_read(view, tensor_, tracker_.context(), 3).loop >= 0;
    }

  private:
    std::vector<Loop> loops_;
    LoopTracker tracker_;
    AccessTracker accesses_;
    Tensor tensor_ = matrix(Buffer::kHbm);
};

}  // namespace

TEST_CASE("regions overlap exactly where their elements do, whatever their dimensions",
          "[nki][regions]") {
    Numbers numbers;
    int meeting = 0;
    for (int k = 0; k < 6000; ++k) {
        const bool on_chip = k % 3 == 0;
        const Tensor tensor = matrix(on_chip ? Buffer::kSbuf : Buffer::kHbm);
        const View a = random_view(numbers, on_chip);
        const View b = random_view(numbers, on_chip);
        const std::set<std::int64_t> of_a = elements(a);
        const std::set<std::int64_t> of_b = elements(b);
        // On chip a view stays in its partitions: what reaches further is no access of a kernel.
        const auto inside = [&](const View& view) {
            if (!on_chip) return true;
            View row = view;
            row.dims[0].count = 1;
            row.offset %= kRow;
            const std::set<std::int64_t> of_row = elements(row);
            return *of_row.begin() >= 0 && *of_row.rbegin() < kRow;
        };
        if (!inside(a) || !inside(b)) continue;
        const bool expected = std::any_of(of_a.begin(), of_a.end(),
                                          [&](std::int64_t at) { return of_b.count(at) > 0; });
        Overlaps overlaps(1'000'000);
        const Region x = region_of(a, tensor);
        const Region y = region_of(b, tensor);
        INFO("case " << k);
        CHECK(overlaps(x, y) == expected);
        CHECK(overlaps(y, x) == expected);
        CHECK((x == y) <= (of_a == of_b));
        RegionIndex index;
        index.add(x, 7);
        const bool near = index.any_near(
            y, [](std::int64_t) {}, [](std::int32_t number) { return number == 7; });
        CHECK(near >= expected);
        meeting += expected ? 1 : 0;
    }
    CHECK(meeting > 500);
}

TEST_CASE("regions of very many runs are compared exactly", "[nki][regions]") {
    const Tensor tensor = matrix(Buffer::kHbm);
    Overlaps overlaps(1000);
    const auto meet = [&](const View& a, const View& b) {
        return overlaps(region_of(a, tensor), region_of(b, tensor));
    };
    CHECK(meet(line(1, 300'000, 3), line(0, 200'000, 5)));
    CHECK_FALSE(meet(line(1, 300'000, 4), line(2, 300'000, 6)));
    CHECK_FALSE(meet(line(1, 300'000, 4), line(0, 300'000, 6)));
    CHECK_FALSE(meet(line(0, 300'000, 2), line(1, 300'000, 2)));
    CHECK_FALSE(meet(line(0, 5000, 10), line(1, 5000, 10)));
    CHECK(meet(line(0, 5000, 10), line(49'990, 5000, 10)));
    CHECK_FALSE(meet(line(0, 5000, 10), line(50'000, 5000, 10)));
    CHECK(region_of(line(0, 100, 1), tensor) == region_of(line(99, 100, -1), tensor));
}

TEST_CASE("writes of more than 65,536 regions are all remembered", "[nki][regions]") {
    AffineLoop loop;
    for (std::int64_t k = 0; k < 70'000; ++k) REQUIRE_FALSE(loop.write(line(4 * k, 3, 1)));
    CHECK_FALSE(loop.read(line(3, 1, 1)));
    CHECK(loop.read(line(4 * 69'999 + 2, 1, 1)));
    CHECK(loop.write(line(4 * 69'000, 1, 1)));
    CHECK(loop.write(line(2, 1, 1)));
}

TEST_CASE("regions are found in the rows that their strides make", "[nki][regions]") {
    // Blocks of [16, 8] of a [512, 256] matrix, columns of another shape, and a wide write.
    AffineLoop loop;
    const auto block = [](std::int64_t row, std::int64_t column, std::int64_t rows,
                          std::int64_t columns) {
        View view;
        view.tensor = 0;
        view.rank = 2;
        view.offset = row * 256 + column;
        view.dims[0] = {256, rows};
        view.dims[1] = {1, columns};
        return view;
    };
    for (std::int64_t r = 0; r < 512; r += 16)
        for (std::int64_t c = 0; c < 248; c += 8) REQUIRE_FALSE(loop.write(block(r, c, 16, 8)));
    for (std::int64_t c = 248; c < 255; ++c) REQUIRE_FALSE(loop.write(block(0, c, 512, 1)));
    CHECK_FALSE(loop.read(block(0, 255, 512, 1)));
    CHECK(loop.read(block(17, 9, 1, 1)));
    CHECK(loop.write(block(500, 250, 1, 6)));
    CHECK(loop.write(block(0, 0, 512, 256)));
}

TEST_CASE("comparing accesses has a budget", "[nki][regions]") {
    const auto compare_until = [](std::int64_t budget) {
        AffineLoop loop(budget);
        try {
            for (std::int64_t k = 0; k < 300; ++k) loop.write(line(k, 50, 301));
        } catch (const TraceFailure& failure) {
            return failure.finding.outcome + "/" + failure.finding.code;
        }
        return std::string("ok");
    };
    CHECK(compare_until(100'000) == "ok");
    CHECK(compare_until(100) == "resource_limit/steps");
}

}  // namespace accelopt::nki::interp
