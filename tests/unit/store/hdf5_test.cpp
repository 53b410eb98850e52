#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "store/hdf5_file.h"
#include "unit/store/temporary_folder.h"

using accelopt::Error;
using namespace accelopt::store;
using accelopt::store::testing::TemporaryFolder;
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

namespace {

Table small_table() {
    Table table("small");
    table.add("count", Integers{-1, 0, std::numeric_limits<std::int64_t>::max()});
    table.add("ratio", Numbers{0.5, std::nan(""), -1e300});
    table.add("text", Texts{"", std::string("a\0b", 3), "grüße → 漢字"});
    return table;
}

std::string write(const TemporaryFolder& folder, const std::vector<Table>& tables,
                  int compression = 4) {
    const std::string path = folder.path() + "/file.h5";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << hdf5_image(tables, compression);
    return path;
}

/// Runs a Python script with h5py; true when it ends well.
bool python_agrees(const TemporaryFolder& folder, const std::string& script) {
    const std::string path = folder.path() + "/check.py";
    std::ofstream(path) << script;
    return std::system(("/usr/bin/python3 " + path + " " + folder.path()).c_str()) == 0;
}

}  // namespace

TEST_CASE("Tables come back from HDF5 as they were written, absent figures included", "[N36]") {
    TemporaryFolder folder;
    for (int compression : {0, 4, 9}) {
        const std::string path = write(folder, {small_table()}, compression);
        const Table table = read_hdf5_table(path, "small");
        CHECK(table.rows() == 3);
        CHECK(table.integers("count") == small_table().integers("count"));
        CHECK(table.texts("text") == small_table().texts("text"));
        CHECK(table.numbers("ratio")[0] == 0.5);
        CHECK(std::isnan(table.numbers("ratio")[1]));
        CHECK(table.numbers("ratio")[2] == -1e300);
    }
}

TEST_CASE("A table without rows keeps its columns") {
    TemporaryFolder folder;
    Table empty("empty");
    empty.add("count", Integers{});
    empty.add("ratio", Numbers{});
    empty.add("text", Texts{});
    const std::string path = write(folder, {empty, small_table()});
    const Table table = read_hdf5_table(path, "empty");
    CHECK(table.rows() == 0);
    CHECK(table.columns().size() == 3);
    CHECK(table.texts("text").empty());
    CHECK(hdf5_table_names(path) == Texts{"empty", "small"});
}

TEST_CASE("Columns of several chunks come back whole") {
    TemporaryFolder folder;
    Integers numbers;
    Texts texts;
    for (int i = 0; i < 40'000; ++i) {
        numbers.push_back(i * 37 % 1001);
        texts.push_back("row " + std::to_string(i) + std::string(i % 97, 'x'));
    }
    Table table("many");
    table.add("number", numbers);
    table.add("text", texts);
    const Table back = read_hdf5_table(write(folder, {table}), "many");
    CHECK((back.integers("number") == numbers));
    CHECK((back.texts("text") == texts));
}

TEST_CASE("Ten thousand repetitive prompts of 4 kB take less than a fifth of their size", "[N36]") {
    Texts prompts;
    std::size_t raw = 0;
    for (int i = 0; i < 10'000; ++i) {
        std::string prompt =
            "Candidate " + std::to_string(i) + " of round " + std::to_string(i / 100) + "\n";
        while (prompt.size() < 4096) {
            prompt += "for t in nl.affine_range(" + std::to_string(i % 16) +
                      "): load the next tile, multiply, accumulate, store the result\n";
        }
        raw += prompt.size();
        prompts.push_back(std::move(prompt));
    }
    Table table("llm_calls");
    table.add("prompt", prompts);
    const std::string image = hdf5_image({table}, 4);
    CHECK(image.size() < raw / 5);
    TemporaryFolder folder;
    std::ofstream(folder.path() + "/prompts.h5", std::ios::binary) << image;
    CHECK((read_hdf5_table(folder.path() + "/prompts.h5", "llm_calls").texts("prompt") == prompts));
}

TEST_CASE("The same tables give the same bytes") {
    CHECK((hdf5_image({small_table()}, 4) == hdf5_image({small_table()}, 4)));
}

TEST_CASE("h5py opens what is written and decodes the texts", "[N33][N36]") {
    TemporaryFolder folder;
    write(folder, {small_table()});
    CHECK(python_agrees(folder, R"(
import sys, math, h5py
with h5py.File(sys.argv[1] + "/file.h5", "r") as f:
    t = f["small"]
    assert f.attrs["format"] == 1 and t.attrs["rows"] == 3
    assert list(t["count"][:]) == [-1, 0, 2**63 - 1]
    assert math.isnan(t["ratio"][1]) and t["ratio"][0] == 0.5
    data, at = t["text/bytes"][:].tobytes(), t["text/offsets"][:]
    texts = [data[a:b].decode() for a, b in zip(at, at[1:])]
    assert texts == ["", "a\0b", "gr\u00fc\u00dfe \u2192 \u6f22\u5b57"], texts
)"));
    CHECK_FALSE(python_agrees(folder, "import sys; sys.exit(1)"));
}

TEST_CASE("Missing, foreign, truncated and damaged files are errors with the path") {
    TemporaryFolder folder;
    const auto message_for = [&](const std::string& path, const std::string& table) {
        try {
            read_hdf5_table(path, table);
        } catch (const Error& error) {
            CHECK(error.code() == "hdf5");
            return std::string(error.what());
        }
        return std::string("nothing thrown");
    };
    CHECK_THAT(message_for(folder.path() + "/missing.h5", "small"), Catch::Contains("missing.h5"));
    std::ofstream(folder.path() + "/foreign.h5") << "not HDF5 at all";
    CHECK_THAT(message_for(folder.path() + "/foreign.h5", "small"), Catch::Contains("foreign.h5"));
    const std::string good = write(folder, {small_table()});
    CHECK_THAT(message_for(good, "large"), Catch::Contains("no table large"));
    const std::string image = accelopt::read_file(good);
    for (std::size_t size = 0; size < image.size(); size += 97) {
        std::ofstream(folder.path() + "/cut.h5", std::ios::binary | std::ios::trunc)
            << image.substr(0, size);
        CHECK(message_for(folder.path() + "/cut.h5", "small") != "nothing thrown");
    }
}

TEST_CASE("A wrongly named or typed column is explained") {
    const Table table = small_table();
    CHECK_THROWS_WITH(table.integers("cuont"), Catch::Contains("count, ratio, text"));
    CHECK_THROWS_WITH(table.integers("ratio"), Catch::Contains("of the wanted type"));
    Table uneven("uneven");
    uneven.add("a", Integers{1, 2});
    CHECK_THROWS_AS(uneven.add("b", Integers{1}), Error);
    CHECK_THROWS_AS(uneven.add("a", Integers{3, 4}), Error);
}
