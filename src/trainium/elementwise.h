#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nki/program.h"
#include "trainium/iteration.h"
#include "trainium/number_format.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium::execution {

/// An operand bound to memory: the element at index i lies `stride * i` elements from `data`. An
/// immediate is the same value everywhere and has no data.
struct Operand {
    std::byte* data = nullptr;
    NumberFormat format;
    Extents stride{};
    bool is_immediate = false;
    double immediate = 0;

    static Operand of(double value) {
        Operand operand;
        operand.is_immediate = true;
        operand.immediate = value;
        return operand;
    }
};

inline constexpr int kMaxOperands = 4;

/// What happens to the running value in one step.
struct ChainStep {
    enum class Kind : std::uint8_t {
        kUnary,     ///< value = function(value)
        kBinary,    ///< value = value op operand
        kReversed,  ///< value = operand op value
        kSelect     ///< value = value ? operand : operand after it
    };
    Kind kind = Kind::kUnary;
    nki::ActFunction function = nki::ActFunction::kCopy;
    nki::AluOp op = nki::AluOp::kNone;
    int operand = 0;
};

/// What the running value is.
enum class Arithmetic : std::uint8_t {
    kByOperands,  ///< float32, or integers where a step is bitwise or a copy is between integers
    kFloats,      ///< float32 even so
    kIntegers     ///< integers even for arithmetic steps
};

/// Elementwise work on every element: the value starts as operand 0 and goes through the steps.
struct Chain {
    Arithmetic arithmetic = Arithmetic::kByOperands;
    int operand_count = 0;
    std::array<Operand, kMaxOperands> operands;
    int step_count = 0;
    std::array<ChainStep, 4> steps;

    int add_operand(const Operand& operand) {
        operands[operand_count] = operand;
        return operand_count++;
    }
    void add_step(const ChainStep& step) { steps[step_count++] = step; }
};

/// Runs a chain over a space and writes it to `target`. Operands may coincide with the target
/// element by element; other overlaps are the caller's to resolve.
void run_chain(const Chain& chain, const Space& space, const Operand& target);

/// Writes a constant plus a linear function of the indices of the unmasked iteration space.
void write_iota(double constant, const std::array<nki::Extent, nki::kMaxDims>& coefficients,
                const Space& space, const Operand& target);

}  // namespace accelopt::trainium::execution
