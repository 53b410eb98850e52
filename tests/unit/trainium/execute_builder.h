#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/rng.h"
#include "nki/program.h"
#include "trainium/execute.h"

namespace accelopt::trainium::testing {

/// Builds programs by hand, as the front end would make them.
class ProgramBuilder {
  public:
    nki::TensorId input(const std::vector<std::int64_t>& shape,
                        nki::DType dtype = nki::DType::kFloat32);
    nki::TensorId output(const std::vector<std::int64_t>& shape,
                         nki::DType dtype = nki::DType::kFloat32);
    nki::TensorId scratch(const std::vector<std::int64_t>& shape,
                          nki::DType dtype = nki::DType::kFloat32);
    nki::TensorId constant(const std::vector<std::int64_t>& shape, std::vector<float> values,
                           nki::DType dtype = nki::DType::kFloat32);
    /// An on-chip tensor of `blocks` tiles of [partitions, free].
    nki::TensorId tile(nki::Buffer buffer, std::int64_t partitions, std::int64_t free,
                       nki::DType dtype = nki::DType::kFloat32, std::int64_t blocks = 1);

    /// All of a tile or HBM tensor as [partitions, free].
    nki::View whole(nki::TensorId tensor, std::int64_t block = 0) const;
    /// Rows [row, row + rows) and columns [column, column + columns) of it.
    nki::View part(nki::TensorId tensor, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t columns, std::int64_t block = 0) const;

    nki::Operation& add(nki::Opcode opcode, const nki::View& dst,
                        const std::vector<nki::View>& sources = {});
    nki::Operation& memset(const nki::View& dst, double value);
    nki::Operation& load(nki::TensorId tile, nki::TensorId tensor);
    nki::Operation& store(nki::TensorId tensor, nki::TensorId tile);

    nki::Program program;

  private:
    nki::TensorId hbm(const std::vector<std::int64_t>& shape, nki::DType dtype,
                      nki::TensorRole role);
    int line_ = 0;
};

/// An array of raw elements of a dtype and the numbers they stand for.
struct HostArray {
    std::vector<std::byte> bytes;
    std::vector<double> values;

    InputArray as_input() const { return {bytes.data(), static_cast<std::int64_t>(bytes.size())}; }
};

/// Encodes numbers in a dtype (rounded) and keeps what they became.
HostArray encode_array(nki::DType dtype, const std::vector<double>& values);
std::vector<double> decode_array(nki::DType dtype, std::span<const std::byte> bytes);

/// Draws numbers that suit a dtype: both signs and zero for floats, the small range for integers.
std::vector<double> random_values(RandomStream& random, nki::DType dtype, std::int64_t n);

/// Integer in [low, high].
std::int64_t pick(RandomStream& random, std::int64_t low, std::int64_t high);

/// A random injective view with the given counts: padded, strided, permuted, sometimes reversed
/// free dims inside a row; `partitions` and `free` become the tile it needs.
nki::View random_view(RandomStream& random, const std::vector<std::int64_t>& counts,
                      std::int64_t& partitions, std::int64_t& free);

}  // namespace accelopt::trainium::testing
