#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "nki/program.h"
#include "trainium/machine.h"
#include "trainium/stream.h"

namespace accelopt::trainium::testing {

/// The Trainium 1 constants as literals: tests do not read configuration files.
Machine trn1();

/// Builds programs by hand, as the front end would trace them. Every on-chip call makes a tensor of
/// its own unless it is given one.
class ProgramBuilder {
  public:
    nki::Program program;

    nki::TensorId hbm(std::vector<std::int64_t> shape, nki::TensorRole role,
                      nki::DType dtype = nki::DType::kFloat32);
    nki::TensorId input(std::vector<std::int64_t> shape, nki::DType dtype = nki::DType::kFloat32) {
        return hbm(std::move(shape), nki::TensorRole::kInput, dtype);
    }
    nki::TensorId output(std::vector<std::int64_t> shape, nki::DType dtype = nki::DType::kFloat32) {
        return hbm(std::move(shape), nki::TensorRole::kOutput, dtype);
    }
    /// One tile (or `blocks` tiles) of [partitions, free].
    nki::TensorId tile(std::int64_t partitions, std::int64_t free, int site,
                       nki::Buffer buffer = nki::Buffer::kSbuf, std::int64_t blocks = 1,
                       nki::DType dtype = nki::DType::kFloat32);
    nki::TensorId psum(std::int64_t partitions, std::int64_t free, int site) {
        return tile(partitions, free, site, nki::Buffer::kPsum);
    }

    /// Rows [row, row + rows) and columns [column, column + columns) of a 2-D HBM tensor or of a
    /// tile.
    nki::View window(nki::TensorId tensor, std::int64_t row, std::int64_t rows, std::int64_t column,
                     std::int64_t columns, std::int64_t block = 0) const;
    nki::View whole(nki::TensorId tensor, std::int64_t block = 0) const;
    /// Any two-dimensional view.
    nki::View view(nki::TensorId tensor, std::int64_t offset, nki::Dim rows, nki::Dim columns,
                   std::int64_t block = 0) const;

    nki::Operation& add(nki::Opcode opcode, const nki::View& dst,
                        std::initializer_list<nki::View> sources = {});
    nki::Operation& load(const nki::View& dst, const nki::View& src) {
        return add(nki::Opcode::kLoad, dst, {src});
    }
    nki::Operation& store(const nki::View& dst, const nki::View& src) {
        return add(nki::Opcode::kStore, dst, {src});
    }
    nki::Operation& copy(const nki::View& dst, const nki::View& src) {
        return add(nki::Opcode::kCopy, dst, {src});
    }
    nki::Operation& activation(const nki::View& dst, nki::ActFunction function,
                               const nki::View& src);
    nki::Operation& scalar(const nki::View& dst, nki::AluOp op, const nki::View& src,
                           double immediate);
    nki::Operation& scalar(const nki::View& dst, nki::AluOp op, const nki::View& src,
                           const nki::View& vector);
    nki::Operation& tensor_tensor(const nki::View& dst, nki::AluOp op, const nki::View& a,
                                  const nki::View& b);
    nki::Operation& matmul(const nki::View& dst, const nki::View& stationary,
                           const nki::View& moving, bool accumulate = false);
    nki::Operation& transpose(const nki::View& dst, const nki::View& src, bool implicit);
    nki::Operation& reduce(const nki::View& dst, nki::AluOp op, const nki::View& src);
};

/// A load of `bytes` in contiguous runs of `run`, to `rows` partitions; far apart by `stride`.
Instruction dma(std::int64_t bytes, std::int64_t run, std::int32_t rows, std::int64_t stride);

/// Mask "row + i0 < limit" over rows.
nki::MaskTerm rows_below(std::int64_t row, std::int64_t limit);

}  // namespace accelopt::trainium::testing
