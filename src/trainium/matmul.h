#pragma once

#include <cstdint>

namespace accelopt::trainium::execution {

/// A matrix of floats in memory; strides are in elements.
struct Matrix {
    float* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;

    /// True when the library takes it as it lies: rows or columns are contiguous, and the other
    /// stride is at least their length.
    bool regular() const;
};

/// product (+)= left right in float32 through oneDNN, in the calling thread's OpenMP team. All
/// matrices are regular, `product` has contiguous rows and overlaps neither factor. Accumulation
/// order is the library's: the error of an element is at most K * 2^-24 * sum |left| |right|.
void multiply_matrices(const Matrix& left, const Matrix& right, const Matrix& product,
                       bool accumulate);

/// Restricts oneDNN to one thread for its lifetime, so that bits and timings do not depend on the
/// machine's cores, and restores the caller's setting.
class SingleThread {
  public:
    SingleThread();
    ~SingleThread();
    SingleThread(const SingleThread&) = delete;
    SingleThread& operator=(const SingleThread&) = delete;

  private:
    int threads_;
};

}  // namespace accelopt::trainium::execution
