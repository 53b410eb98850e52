#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <type_traits>

#include "core/clock.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/result.h"
#include "core/rng.h"
#include "core/secret.h"
#include "core/text.h"

using namespace accelopt;

TEST_CASE("sha256 and crc32 match published vectors") {
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(crc32("123456789") == 0xCBF43926U);
}

TEST_CASE("a random stream depends on its key alone") {
    auto a = RandomStream::keyed(1, "silu/round=0/plan=1");
    auto b = RandomStream::keyed(1, "silu/round=0/plan=1");
    auto c = RandomStream::keyed(1, "silu/round=0/plan=2");
    auto d = RandomStream::keyed(2, "silu/round=0/plan=1");
    const auto first = a.next_u64();
    CHECK(first == b.next_u64());
    CHECK(first != c.next_u64());
    CHECK(first != d.next_u64());
}

TEST_CASE("philox matches the published zero vector") {
    // Random123 known-answer test: philox4x32-10, counter 0, key 0.
    RandomStream stream(0);
    CHECK(stream.next_u32() == 0x6627e8d5U);
    CHECK(stream.next_u32() == 0xe169c58dU);
    CHECK(stream.next_u32() == 0xbc57ac4cU);
    CHECK(stream.next_u32() == 0x9b00dbd8U);
}

TEST_CASE("below is in range and permutation holds every index once") {
    auto stream = RandomStream::keyed(3, "test");
    for (int i = 0; i < 1000; ++i) CHECK(stream.below(7) < 7);
    const auto order = stream.permutation(50);
    CHECK(std::set<std::size_t>(order.begin(), order.end()).size() == 50);
    for (int i = 0; i < 1000; ++i) {
        const double u = stream.uniform();
        CHECK((u >= 0 && u < 1));
    }
}

TEST_CASE("nearest_word suggests a likely misspelling only") {
    CHECK(nearest_word("smaples", {"samples", "plans", "beam"}) == "samples");
    CHECK(nearest_word("zebra", {"samples", "plans", "beam"}).empty());
}

TEST_CASE("a secret is scrubbed and cannot be printed") {
    const Secret secret("sk-12345");
    CHECK(secret.scrub("key sk-12345 and sk-12345") == "key [secret] and [secret]");
    CHECK(Secret("secret").scrub("a secret key") == "a [secret] key");
    static_assert(!std::is_convertible_v<Secret, std::string>);
}

TEST_CASE("result holds a value or an error") {
    Result<int, std::string> good(3);
    Result<int, std::string> bad(Failure{std::string("no")});
    CHECK(good.value() == 3);
    CHECK(bad.error() == "no");
    CHECK_THROWS_AS(bad.value(), Error);
}

TEST_CASE("write_file_atomically replaces a file and leaves no temporary") {
    namespace fs = std::filesystem;
    const fs::path folder =
        fs::temp_directory_path() / ("accelopt-core-" + std::to_string(getpid()));
    fs::create_directories(folder);
    const std::string path = (folder / "x.txt").string();
    write_file_atomically(path, "one");
    write_file_atomically(path, "two");
    CHECK(read_file(path) == "two");
    CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
    CHECK_THROWS_AS(read_file((folder / "missing").string()), Error);
    fs::remove_all(folder);
}

TEST_CASE("virtual clock advances without sleeping") {
    VirtualClock clock;
    const double before = clock.monotonic_s();
    clock.sleep(3600);
    CHECK(clock.monotonic_s() - before == Approx(3600));
    CHECK(format_utc(0) == "1970-01-01T00:00:00Z");
}
