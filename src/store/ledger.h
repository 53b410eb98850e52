#pragma once

#include "protocol/usage.h"

namespace accelopt::store {

/// True for a try without a price that a server turned away before it did any work: what it cost is
/// not unknown.
bool turned_away(const protocol::LedgerRow& row);

}  // namespace accelopt::store
