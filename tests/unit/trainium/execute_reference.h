#pragma once

#include <map>
#include <utility>
#include <vector>

#include "nki/program.h"

namespace accelopt::trainium::testing {

/// Values of a program computed the plain way: one element at a time, in double, rounded to
/// float32 after every step and to the destination's dtype at the end. Every operation reads all
/// of its operands before it writes. Shares no loop, mask or layout code with the product.
class ReferenceMachine {
  public:
    ReferenceMachine(const nki::Program& program, const std::vector<std::vector<double>>& inputs);

    void run();
    /// The numbers in a tile; what was never written is NaN.
    const std::vector<double>& values(nki::TensorId tensor, std::int64_t block = 0);

  private:
    using Index = std::array<std::int64_t, nki::kMaxDims>;

    double read(const nki::View& view, const Index& index);
    double scalar(const nki::ScalarOperand& operand, const Index& index);
    double element(const nki::Operation& operation, const Index& index);
    std::vector<Index> active(const nki::Operation& operation, const nki::View& space) const;
    void write(const nki::View& view, std::int64_t address, double value);
    void run_reduce(const nki::Operation& operation);
    void run_scan(const nki::Operation& operation);
    void run_matmul(const nki::Operation& operation);
    void run_transpose(const nki::Operation& operation);

    const nki::Program& program_;
    std::map<std::pair<nki::TensorId, std::int64_t>, std::vector<double>> tiles_;
};

/// One operation on numbers, as documented for the engines.
double alu(nki::AluOp op, double a, double b);
/// One activation function in double.
double activation(nki::ActFunction function, double x);

}  // namespace accelopt::trainium::testing
