#include "eval/reference/blas.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <thread>

namespace accelopt::eval {

namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";
constexpr const char* kThreadVariable = "OPENBLAS_NUM_THREADS";
/// The name numpy links; the distribution's alternatives decide which BLAS stands behind it.
constexpr const char* kLibrary = "libblas.so.3";
constexpr double kProbeTimeout_s = 20;

using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*,
                       const int*);
using CoreName = char* (*)();

/// Small integers, so that every product and sum is exact in float32 and any order of summation
/// gives the same bits: a single differing element is a fault of the library.
float probe_value(std::uint32_t& state) {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int>(state >> 28) - 8);
}

bool product_agrees(Sgemm sgemm, int m, int n, int k) {
    std::uint32_t state = static_cast<std::uint32_t>(m * 73 + n * 179 + k);
    std::vector<float> a(static_cast<std::size_t>(m) * k), b(static_cast<std::size_t>(k) * n);
    std::vector<float> c(static_cast<std::size_t>(m) * n, 7.0f);
    for (float& x : a) x = probe_value(state);
    for (float& x : b) x = probe_value(state);
    const float one = 1, zero = 0;
    sgemm("N", "N", &m, &n, &k, &one, a.data(), &m, b.data(), &k, &zero, c.data(), &m);
    for (int j = 0; j < n; ++j) {
        for (int i = 0; i < m; ++i) {
            float expected = 0;
            for (int l = 0; l < k; ++l) expected += a[i + l * m] * b[l + j * k];
            if (c[i + j * m] != expected) return false;
        }
    }
    return true;
}

/// Runs in the child: exit status 0 when the library's products are right.
[[noreturn]] void probe_in_child(int report_fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) _exit(3);
    const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "sgemm_"));
    if (sgemm == nullptr) _exit(3);
    if (const auto name = reinterpret_cast<CoreName>(dlsym(library, "openblas_get_corename"))) {
        const std::string text = name();
        if (write(report_fd, text.data(), text.size()) < 0) _exit(4);
    }
    const int shapes[][3] = {{1, 1, 1}, {7, 5, 3}, {33, 67, 129}, {128, 257, 128}, {96, 40, 515}};
    for (const auto& s : shapes) {
        if (!product_agrees(sgemm, s[0], s[1], s[2])) _exit(1);
    }
    _exit(0);
}

/// Waits for `child` at most kProbeTimeout_s; true when it exited with status 0.
bool wait_for_success(pid_t child) {
    using namespace std::chrono;
    const auto deadline = steady_clock::now() + duration<double>(kProbeTimeout_s);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (steady_clock::now() > deadline) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return false;
        }
        std::this_thread::sleep_for(milliseconds(1));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Probes the library as the environment now stands; the core name it reports, or nullopt when it
/// is missing, wrong, crashes or hangs.
std::optional<std::string> probe() {
    int fds[2];
    if (pipe(fds) != 0) return std::nullopt;
    const pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        probe_in_child(fds[1]);
    }
    close(fds[1]);
    const bool right = child > 0 && wait_for_success(child);
    std::string name;  // short enough for the pipe to hold it, so the child never waits for us
    char buffer[128];
    if (right) {
        const ssize_t n = read(fds[0], buffer, sizeof buffer);
        if (n > 0) name.assign(buffer, static_cast<std::size_t>(n));
    }
    close(fds[0]);
    if (!right) return std::nullopt;
    return name;
}

BlasChoice choose() {
    setenv(kThreadVariable, "1", 0);
    if (const char* preset = getenv(kCoreVariable)) {
        const auto name = probe();
        return {name.value_or(preset), "environment", name.has_value(),
                std::string("OPENBLAS_CORETYPE=") + preset + " is set in the environment" +
                    (name ? "" : ", but its products are wrong or it does not run here")};
    }
    for (const std::string& candidate : blas_candidates()) {
        setenv(kCoreVariable, candidate.c_str(), 1);
        const auto name = probe();
        if (name && name->empty()) {
            unsetenv(kCoreVariable);
            return {"", "library default", true,
                    "numpy's BLAS is not OpenBLAS; products may be slow (install "
                    "libopenblas0-pthread)"};
        }
        if (name) return {*name, "processor", true, "chosen by processor features and probed"};
    }
    unsetenv(kCoreVariable);
    const auto name = probe();
    return {name.value_or(""), "library default", name.has_value(),
            name ? "no known core type fits this processor; the library chose"
                 : "numpy's BLAS fails the correctness probe or is not installed"};
}

}  // namespace

std::vector<std::string> blas_candidates() {
    std::vector<std::string> candidates;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        candidates.push_back("SkylakeX");
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        candidates.push_back("Haswell");
    }
    if (__builtin_cpu_supports("avx")) candidates.push_back("Sandybridge");
#endif
    return candidates;
}

const BlasChoice& choose_blas() {
    static const BlasChoice choice = choose();
    return choice;
}

}  // namespace accelopt::eval
