#include "cli/terminal_style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace accelopt::cli {

report::TerminalStyle terminal_style(std::optional<int> width) {
    constexpr int kNarrowest = 60;
    report::TerminalStyle style;
    const bool terminal = isatty(STDOUT_FILENO) == 1;
    winsize size{};
    if (width) {
        style.width = *width;
    } else if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        style.width = std::max(kNarrowest, static_cast<int>(size.ws_col));
    }
    const char* no_colour = std::getenv("NO_COLOR");
    style.colour = terminal && (no_colour == nullptr || *no_colour == '\0');
    return style;
}

}  // namespace accelopt::cli
