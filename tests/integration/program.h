#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/text.h"

namespace accelopt::testing {

namespace fs = std::filesystem;

/// A folder of its own, removed at the end.
struct Folder {
    explicit Folder(const std::string& name)
        : path(fs::temp_directory_path() / ("accelopt-" + name + "-" + std::to_string(getpid()))) {
        fs::remove_all(path);
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((path / name).parent_path());
        std::ofstream(path / name) << text;
    }
    std::string read(const std::string& name) const { return read_file((path / name).string()); }
    /// What the last program run in it printed.
    std::string output() const { return read("out.txt") + read("err.txt"); }

    fs::path path;
};

/// Runs `accelopt ARGUMENTS` in the folder and returns its exit code; `before` comes before the
/// program's name ("mpirun -n 4", "timeout 5").
inline int run_program(const Folder& folder, const std::string& arguments,
                       const std::string& before = "") {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "OMPI_MCA_rmaps_base_oversubscribe"}) {
        setenv(name, "1", 1);
    }
    const std::string command = "cd " + folder.path.string() + " && " + before +
                                " " ACCELOPT_BINARY_DIR "/accelopt " + arguments +
                                " > out.txt 2> err.txt";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
    const auto at = text.find(what);
    REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), by);
}

inline std::string in_fence(const std::string& kernel) {
    return "Here is the kernel.\n\n```python\n" + kernel + "```\n";
}

inline std::string silu_baseline() {
    return read_file(ACCELOPT_SOURCE_DIR "/nkibench/silu/baseline.py");
}

/// A right and faster kernel: one activation in place of exp, add, reciprocal and multiply.
inline std::string silu_good() {
    const std::string baseline = silu_baseline();
    const auto chain = baseline.find("                decay = ");
    const auto store = baseline.find("            nl.store(");
    REQUIRE(chain < store);
    return baseline.substr(0, chain) +
           "                y_tile[lane, cut] = nisa.activation(op=nl.silu, "
           "data=x_tile[lane, cut])\n" +
           baseline.substr(store);
}

inline std::string silu_wrong() { return replaced(silu_baseline(), "scale=-1.0", "scale=-1.5"); }

}  // namespace accelopt::testing
