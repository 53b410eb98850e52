#pragma once

#include <set>
#include <string>

#include "rewrite/kernel.h"

namespace accelopt::rewrite {

/// Tiles and arrays that the kernel makes but never reads.
std::set<std::string> dead_names(Kernel& kernel);

/// Removes statements that only fill tiles nobody reads any more, their allocations, and loops left
/// empty. Names in `keep` stay, however dead. Refreshes the kernel.
void remove_dead(Kernel& kernel, const std::set<std::string>& keep);

/// Whether a loop body does nothing: empty, or strings only.
bool is_idle(const nki::Block& body);

/// The statement that starts on a line of the source, or nullptr.
nki::Stmt* statement_at(Kernel& kernel, int line);
std::optional<Place> place_of(Kernel& kernel, const nki::Stmt& stmt);

/// Inserts before `index` of `block`.
void insert_before(nki::Block& block, std::size_t index, std::vector<nki::StmtPtr> stmts);

}  // namespace accelopt::rewrite
