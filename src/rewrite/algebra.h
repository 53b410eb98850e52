#pragma once

#include <optional>
#include <vector>

#include "rewrite/term.h"

namespace accelopt::rewrite {

/// constant + sum of factor * tile, after looking through definitions.
struct Linear {
    struct Part {
        Term tile;
        double factor = 1;
    };
    double constant = 0;
    std::vector<Part> parts;

    bool single() const { return parts.size() == 1; }
};

/// Looks at terms as one statement sees them.
class Algebra {
  public:
    Algebra(const Definitions& definitions, const Elementwise& root)
        : definitions_(definitions), root_(root) {}

    /// The term behind a tile: what its reaching definition computes, else the tile itself.
    Term resolve(const Term& term) const;
    /// Linear form; definitions are looked through at most `depth` times on any way down.
    std::optional<Linear> linear(const Term& term, int depth) const;
    /// The argument x when the term is 1 + exp(-x).
    std::optional<Term> exp_denominator(const Term& term) const;
    /// The argument x when the term is sigmoid(x), in whatever form.
    std::optional<Term> sigmoid_argument(const Term& term) const;
    /// The argument x when the term is x * sigmoid(x).
    std::optional<Term> silu_argument(const Term& term) const;
    /// The argument x when the term is 1 / sqrt(x).
    std::optional<Term> rsqrt_argument(const Term& term) const;
    /// A tile that holds factor * tile already, computed before the root in its block.
    const Elementwise* available(const Term& tile, double factor) const;

  private:
    bool same(const Term& a, const Term& b) const;

    const Definitions& definitions_;
    const Elementwise& root_;
};

}  // namespace accelopt::rewrite
