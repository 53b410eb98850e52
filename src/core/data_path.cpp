#include "core/data_path.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace accelopt {

namespace fs = std::filesystem;

std::string data_root() {
    std::vector<std::string> places;
    if (const char* variable = std::getenv("ACCELOPT_DATA")) places.emplace_back(variable);
    std::error_code ignored;
    const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
    if (!executable.empty()) {
        // <prefix>/bin/accelopt -> <prefix>/share/accelopt
        places.push_back((executable.parent_path().parent_path() / "share/accelopt").string());
    }
    places.emplace_back(ACCELOPT_SOURCE_TREE);
    for (const auto& place : places) {
        if (fs::exists(fs::path(place) / "configs/hardware", ignored)) return place;
    }
    throw Error(ErrorSource::kConfig, "data_path",
                "cannot find the data files (configs/hardware) in " + join(places, ", ") +
                    "; set ACCELOPT_DATA to the folder that holds configs/ and nkibench/");
}

std::string data_path(const std::string& relative) {
    std::error_code ignored;
    if (fs::exists(relative, ignored)) return relative;
    return (fs::path(data_root()) / relative).string();
}

}  // namespace accelopt
