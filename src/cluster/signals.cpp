#include "cluster/signals.h"

#include <csignal>
#include <initializer_list>

namespace accelopt::cluster {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_signal(int) { g_interrupted = 1; }

}  // namespace

void install_signal_handlers() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    for (int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaction(number, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace accelopt::cluster
