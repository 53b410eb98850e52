#include "eval/reference/pieces.h"

#include <algorithm>
#include <numeric>

namespace accelopt::eval {

namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;
constexpr std::int64_t kPieces = 8;

std::int64_t product(std::vector<std::int64_t>::const_iterator first,
                     std::vector<std::int64_t>::const_iterator last) {
    return std::accumulate(first, last, std::int64_t{1}, std::multiplies<>());
}

std::int64_t wide_bytes(const std::vector<std::int64_t>& shape) {
    return product(shape.begin(), shape.end()) * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace

PiecePlan::PiecePlan(const Problem& problem) : output_axes_(problem.outputs.size(), 0) {
    if (!problem.blocks) return;
    output_axes_ = problem.blocks->outputs;
    units_ = problem.blocks->units;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
        if (problem.blocks->inputs[i]) bytes += wide_bytes(problem.inputs[i].shape);
    }
    for (const OutputSpec& output : problem.outputs) bytes += wide_bytes(output.shape);
    const std::int64_t wanted = std::max(kPieces, (bytes + kMaxBytes - 1) / kMaxBytes);
    per_piece_ = std::max<std::int64_t>(1, units_ / wanted);
}

PieceRange PiecePlan::range(std::int64_t index, std::int64_t extent) const {
    const std::int64_t unit = extent / units_;
    const std::int64_t first = index * per_piece_;
    return {first * unit, (std::min(units_, first + per_piece_) - first) * unit};
}

std::size_t PiecePlan::output_axis(std::size_t output) const {
    return static_cast<std::size_t>(output_axes_.at(output));
}

void for_each_run(const std::vector<std::int64_t>& shape, std::size_t axis, const PieceRange& range,
                  const std::function<void(std::size_t, std::size_t, std::size_t)>& take) {
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    const std::int64_t lines = product(shape.begin(), at);
    const std::int64_t inner = product(at + 1, shape.end());
    const auto n = static_cast<std::size_t>(range.count * inner);
    for (std::int64_t line = 0; line < lines; ++line) {
        take(static_cast<std::size_t>(line) * n,
             static_cast<std::size_t>((line * *at + range.first) * inner), n);
    }
}

}  // namespace accelopt::eval
