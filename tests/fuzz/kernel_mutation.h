#pragma once

#include <string>
#include <vector>

#include "core/rng.h"
#include "nki/interpreter.h"

namespace accelopt::fuzz {

/// A kernel that mutants are made of, with the arguments it is traced for.
struct Seed {
    std::string name;
    std::string source;
    std::vector<nki::Argument> arguments;
};

/// The baselines of nkibench/ at their test shapes and the golden kernels of tests/golden/nki.
std::vector<Seed> load_seeds(const std::string& source_folder);

/// Mutates a kernel: on its tokens (swap, delete, duplicate, replace by a token of another kernel)
/// or on its syntax tree (constants, operators, ranges, slices, arguments; statements deleted,
/// duplicated, swapped, wrapped in a loop). Depends on `random` only.
std::string mutate(const Seed& seed, const std::vector<Seed>& all, RandomStream& random);

}  // namespace accelopt::fuzz
