#pragma once

namespace accelopt::nki {

/// Starts the process's one Python interpreter unless one is running already: isolated from the
/// environment and the user's site folder, without signal handlers, with the distribution's
/// packages importable. Leaves the GIL released. Safe to call from any thread and any number of
/// times; every part that embeds Python calls this instead of initialising on its own.
/// Throws Error(kExternal, "python") when Python cannot start.
void start_python();

}  // namespace accelopt::nki
