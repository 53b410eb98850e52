#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rewrite/kernel.h"

namespace accelopt::rewrite {

/// An iota over `size` positions of axis `axis` among `rank` axes (nl.arange(n)[:, None] and kin).
struct Iota {
    std::int64_t size = 0;
    int axis = 0;
    int rank = 1;
    bool operator==(const Iota&) const = default;
    auto operator<=>(const Iota&) const = default;
};

/// constant + sum of coefficient * variable + sum of coefficient * iota. Variables are loop
/// variables and names whose value is not known; anything not affine is a variable spelled as text.
struct Affine {
    std::int64_t constant = 0;
    std::map<std::string, std::int64_t> variables;
    std::map<Iota, std::int64_t> iotas;
    bool operator==(const Affine&) const = default;

    std::int64_t coefficient(const std::string& variable) const;
    bool depends_on(const std::string& variable) const;
    /// Canonical spelling.
    std::string key() const;
};

Affine operator+(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, std::int64_t factor);

/// Reads an index expression; names bound once to affine values are looked through.
Affine affine(const Kernel& kernel, const nki::Expr& expr, int depth = 0);

enum class IndexKind { kPoint, kRange, kFull, kEllipsis, kNewAxis, kOther };

/// One dimension of a subscript. kRange covers offset + stride * [0, size).
struct Index {
    IndexKind kind = IndexKind::kOther;
    Affine offset;
    std::int64_t size = -1;
    std::int64_t stride = 1;
    std::optional<Iota> iota;  ///< the range comes from an iota (else from a slice)
    std::string key() const;
};

std::vector<Index> read_indices(const Kernel& kernel, const nki::Expr& subscript);

/// Canonical text of an expression: names bound once are looked through where they stand for
/// numbers and indices, so that differently spelled but equal accesses compare equal.
std::string canonical_key(const Kernel& kernel, const nki::Expr& expr);

/// Canonical text of a mask; a name bound once to a comparison is looked through.
std::string mask_key(const Kernel& kernel, const nki::Expr& mask);

/// Whether evaluating `expr` depends on `name`, looking through index names bound once.
bool depends_on(const Kernel& kernel, const nki::Expr& expr, const std::string& name);

}  // namespace accelopt::rewrite
