#pragma once

namespace accelopt::cluster {

/// Installs handlers for SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 that only set a flag: all four mean
/// "drain and leave, resumable" (schedulers use different ones: needs N28). SIGPIPE is ignored.
void install_signal_handlers();

/// True once one of them has arrived.
bool interrupted();

}  // namespace accelopt::cluster
