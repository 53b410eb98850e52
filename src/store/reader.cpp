#include "store/reader.h"

#include "store/hdf5_file.h"

namespace accelopt::store {

std::vector<std::string> table_names(const std::string& path) { return hdf5_table_names(path); }

Table read_table(const std::string& path, std::string_view table) {
    return read_hdf5_table(path, table);
}

}  // namespace accelopt::store
