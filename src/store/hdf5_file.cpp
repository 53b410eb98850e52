#include "store/hdf5_file.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <optional>

#include "core/error.h"

namespace accelopt::store {
namespace {

constexpr hsize_t kNumericChunkRows = 16384;
// Deflate sees 32 KiB back; large chunks keep the number of small pieces down.
constexpr hsize_t kTextChunkBytes = hsize_t{1} << 20;
constexpr std::size_t kImageIncrementBytes = std::size_t{1} << 22;
constexpr std::int64_t kFormatVersion = 1;

herr_t append_frame(unsigned, const H5E_error2_t* frame, void* text) {
    auto& message = *static_cast<std::string*>(text);
    if (!message.empty()) message += "; ";
    message += fmt::format("{}: {}", frame->func_name, frame->desc ? frame->desc : "");
    return 0;
}

/// Turns HDF5's error stack into the message of an exception.
[[noreturn]] void fail(const std::string& what) {
    std::string stack;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_frame, &stack);
    H5Eclear2(H5E_DEFAULT);
    throw Error(ErrorSource::kExternal, "hdf5", what + (stack.empty() ? "" : ": " + stack));
}

void check(herr_t status, const std::string& what) {
    if (status < 0) fail(what);
}

/// Owns one HDF5 identifier.
class Handle {
  public:
    using Close = herr_t (*)(hid_t);
    Handle(hid_t id, Close close, const std::string& what) : id_(id), close_(close) {
        if (id < 0) fail(what);
    }
    ~Handle() { close_(id_); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    operator hid_t() const { return id_; }

  private:
    hid_t id_;
    Close close_;
};

/// Errors come back as exceptions; the library must not print them as well.
void silence_library() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

Handle create_group(hid_t parent, const std::string& name) {
    const Handle list(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "cannot make a property list");
    check(H5Pset_obj_track_times(list, false), "cannot switch off times");
    return {H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, list, H5P_DEFAULT), H5Gclose,
            "cannot create group " + name};
}

void set_attribute(hid_t object, const char* name, std::int64_t value) {
    const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "cannot make a dataspace");
    const Handle attribute(H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose, std::string("cannot create attribute ") + name);
    check(H5Awrite(attribute, H5T_NATIVE_INT64, &value),
          std::string("cannot write attribute ") + name);
}

/// How a column's elements are stored and held in memory.
struct ElementType {
    hid_t file;
    hid_t memory;
    hsize_t chunk;
    bool shuffle;
};

void write_dataset(hid_t group, const std::string& name, const void* data, std::size_t count,
                   const ElementType& type, int compression) {
    const hsize_t size = count;
    const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose, "cannot make a dataspace");
    const Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "cannot make a property list");
    check(H5Pset_obj_track_times(list, false), "cannot switch off times");
    if (count > 0) {  // an empty dataset cannot be chunked
        const hsize_t chunk = std::min(type.chunk, size);
        check(H5Pset_chunk(list, 1, &chunk), "cannot set chunks");
        if (compression > 0 && type.shuffle) check(H5Pset_shuffle(list), "cannot set shuffle");
        if (compression > 0) {
            check(H5Pset_deflate(list, static_cast<unsigned>(std::min(compression, 9))),
                  "cannot set deflate");
        }
        check(H5Pset_fletcher32(list), "cannot set checksums");
    }
    const Handle dataset(
        H5Dcreate2(group, name.c_str(), type.file, space, H5P_DEFAULT, list, H5P_DEFAULT), H5Dclose,
        "cannot create dataset " + name);
    if (count == 0) return;
    check(H5Dwrite(dataset, type.memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
          "cannot write dataset " + name);
}

ElementType integer_type() { return {H5T_STD_I64LE, H5T_NATIVE_INT64, kNumericChunkRows, true}; }
ElementType number_type() { return {H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, kNumericChunkRows, true}; }
ElementType byte_type() { return {H5T_STD_U8LE, H5T_NATIVE_UINT8, kTextChunkBytes, false}; }

/// Writes one column into its table's group.
class ColumnWriter {
  public:
    ColumnWriter(hid_t group, const std::string& name, int compression)
        : group_(group), name_(name), compression_(compression) {}

    void operator()(const std::vector<std::int64_t>& list) const {
        write_dataset(group_, name_, list.data(), list.size(), integer_type(), compression_);
    }
    void operator()(const std::vector<double>& list) const {
        write_dataset(group_, name_, list.data(), list.size(), number_type(), compression_);
    }
    void operator()(const std::vector<std::string>& list) const {
        std::vector<std::int64_t> offsets{0};
        offsets.reserve(list.size() + 1);
        std::string bytes;
        for (const auto& text : list) {
            bytes += text;
            offsets.push_back(static_cast<std::int64_t>(bytes.size()));
        }
        const Handle text = create_group(group_, name_);
        write_dataset(text, "bytes", bytes.data(), bytes.size(), byte_type(), compression_);
        write_dataset(text, "offsets", offsets.data(), offsets.size(), integer_type(),
                      compression_);
    }

  private:
    hid_t group_;
    const std::string& name_;
    int compression_;
};

std::size_t dataset_size(hid_t dataset, const std::string& name) {
    const Handle space(H5Dget_space(dataset), H5Sclose, "cannot read the shape of " + name);
    if (H5Sget_simple_extent_ndims(space) != 1) fail("dataset " + name + " is not 1-D");
    hsize_t size = 0;
    check(H5Sget_simple_extent_dims(space, &size, nullptr), "cannot read the shape of " + name);
    return size;
}

template <typename List>
List read_dataset(hid_t dataset, hid_t memory_type, const std::string& name) {
    List list(dataset_size(dataset, name), typename List::value_type{});
    if (list.empty()) return list;
    check(H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, list.data()),
          "cannot read dataset " + name);
    return list;
}

Handle open_dataset(hid_t group, const std::string& name) {
    return {H5Dopen2(group, name.c_str(), H5P_DEFAULT), H5Dclose, "cannot open dataset " + name};
}

std::vector<std::string> read_texts(hid_t group, const std::string& name) {
    const Handle bytes_set = open_dataset(group, name + "/bytes");
    const Handle offsets_set = open_dataset(group, name + "/offsets");
    const auto bytes = read_dataset<std::string>(bytes_set, H5T_NATIVE_UINT8, name);
    const auto offsets =
        read_dataset<std::vector<std::int64_t>>(offsets_set, H5T_NATIVE_INT64, name);
    const auto end = static_cast<std::int64_t>(bytes.size());
    const bool sound = !offsets.empty() && offsets.front() == 0 && offsets.back() == end &&
                       std::is_sorted(offsets.begin(), offsets.end());
    if (!sound) fail("the offsets of text column " + name + " do not fit its bytes");
    std::vector<std::string> texts;
    texts.reserve(offsets.size() - 1);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        texts.push_back(bytes.substr(static_cast<std::size_t>(offsets[i]),
                                     static_cast<std::size_t>(offsets[i + 1] - offsets[i])));
    }
    return texts;
}

Column::Values read_column(hid_t group, const std::string& name) {
    H5O_info_t info;
    check(H5Oget_info_by_name1(group, name.c_str(), &info, H5P_DEFAULT), "cannot find " + name);
    if (info.type == H5O_TYPE_GROUP) return read_texts(group, name);
    const Handle dataset = open_dataset(group, name);
    const Handle type(H5Dget_type(dataset), H5Tclose, "cannot read the type of " + name);
    if (H5Tget_class(type) == H5T_FLOAT) {
        return read_dataset<std::vector<double>>(dataset, H5T_NATIVE_DOUBLE, name);
    }
    return read_dataset<std::vector<std::int64_t>>(dataset, H5T_NATIVE_INT64, name);
}

std::vector<std::string> link_names(hid_t group) {
    std::vector<std::string> names;
    const auto visit = [](hid_t, const char* name, const H5L_info_t*, void* list) -> herr_t {
        static_cast<std::vector<std::string>*>(list)->emplace_back(name);
        return 0;
    };
    check(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, visit, &names),
          "cannot list a group");
    return names;
}

Handle open_file(const std::string& path) {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "cannot make a property list");
    // Published files never change, and some network file systems have no locks.
    check(H5Pset_file_locking(access, false, true), "cannot switch off locking");
    return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose, "cannot open " + path};
}

}  // namespace

std::string hdf5_image(const std::vector<Table>& tables, int compression) {
    silence_library();
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "cannot make a property list");
    // The file is made in memory and never touches a disk half-written.
    check(H5Pset_fapl_core(access, kImageIncrementBytes, false), "cannot choose the core driver");
    const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "cannot make a property list");
    check(H5Pset_obj_track_times(creation, false), "cannot switch off times");
    const Handle file(H5Fcreate("archive.h5", H5F_ACC_TRUNC, creation, access), H5Fclose,
                      "cannot create an HDF5 image");
    const Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose, "cannot open the root group");
    set_attribute(root, "format", kFormatVersion);
    for (const auto& table : tables) {
        const Handle group = create_group(file, table.name());
        set_attribute(group, "rows", static_cast<std::int64_t>(table.rows()));
        for (const auto& column : table.columns()) {
            std::visit(ColumnWriter(group, column.name, compression), column.values);
        }
    }
    check(H5Fflush(file, H5F_SCOPE_GLOBAL), "cannot flush an HDF5 image");
    const ssize_t size = H5Fget_file_image(file, nullptr, 0);
    if (size < 0) fail("cannot size an HDF5 image");
    std::string image(static_cast<std::size_t>(size), '\0');
    if (H5Fget_file_image(file, image.data(), image.size()) != size) {
        fail("cannot copy an HDF5 image");
    }
    return image;
}

std::vector<std::string> hdf5_table_names(const std::string& path) {
    silence_library();
    const Handle file = open_file(path);
    return link_names(file);
}

Table read_hdf5_table(const std::string& path, std::string_view name) {
    silence_library();
    const Handle file = open_file(path);
    Table table{std::string(name)};
    const Handle group(H5Gopen2(file, table.name().c_str(), H5P_DEFAULT), H5Gclose,
                       path + " has no table " + table.name());
    for (const auto& column : link_names(group)) table.add(column, read_column(group, column));
    return table;
}

}  // namespace accelopt::store
