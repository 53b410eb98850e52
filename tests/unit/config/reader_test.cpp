#include "config/reader.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/text.h"
#include "error_text.h"

using namespace accelopt::config;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// A folder of its own, removed at the end.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "accelopt-config-XXXXXX").string();
        REQUIRE(mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    ~TemporaryFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    std::string write(const std::string& name, const std::string& text) const {
        const std::filesystem::path path = path_ / name;
        std::filesystem::create_directories(path.parent_path());
        accelopt::write_file_atomically(path.string(), text);
        return path.string();
    }
    std::string path(const std::string& name = "") const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

std::string load_error(const std::string& text) {
    return config_error([&] { (void)load_text(text, "f.yaml"); });
}

std::string repeated(const std::string& text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += text;
    return result;
}

}  // namespace

TEST_CASE("typed values are read and every key is accounted for") {
    const Section s = load_text(
        "a: 1\nb: -2.5e3\nc: true\nd: text here\ne: [x, 'y', 3]\nf: [1, 2]\n"
        "g:\n  h: 7\ni:\n  - j: 1\n  - j: 2\nk: null\nl: \"5\"\nm: 9223372036854775807\n",
        "f.yaml");
    CHECK(s.get_int("a") == 1);
    CHECK(s.get_double("a") == 1.0);
    CHECK(s.get_double("b") == -2500.0);
    CHECK(s.get_bool("c"));
    CHECK(s.get_string("d") == "text here");
    CHECK(s.string_list("e") == std::vector<std::string>{"x", "y", "3"});
    CHECK(s.int_list("f") == std::vector<std::int64_t>{1, 2});
    CHECK(s.child("g").get_int("h") == 7);
    REQUIRE(s.children("i").size() == 2);
    CHECK(s.children("i")[0].get_int("j") == 1);
    CHECK(s.children("i")[1].get_int("j") == 2);
    CHECK(s.is_null("k"));
    CHECK(s.optional_string("k") == std::nullopt);
    CHECK(s.get_string("l") == "5");
    CHECK(s.get_int("m") == 9223372036854775807);
    CHECK(s.int_or("z", 4) == 4);
    CHECK(s.string_or("z", "w") == "w");
    CHECK(s.optional_double("z") == std::nullopt);
    CHECK(s.children("z").empty());
    CHECK(s.child_or_empty("z").keys().empty());
    CHECK(s.keys().front() == "a");
    CHECK(s.where() == "f.yaml:1");
    CHECK(s.where("g") == "f.yaml:7");
    CHECK(s.child("g").where("h") == "f.yaml:8");
    s.finish();
}

TEST_CASE("a mistyped value names the expected type, the value and its line") {
    const Section s = load_text(
        "a: six\nb: 1.5\nc: yes\nd: [1, x]\ne: {f: 1}\ng: null\nh: '1'\ni: .inf\n"
        "j: 99999999999999999999\nk: [a, [b]]\nl: [1, {m: 2}]\nn: 1e3\n",
        "f.yaml");
    CHECK(config_error([&] { s.get_int("a"); }) == "f.yaml:1: a: expected an integer, found 'six'");
    CHECK(config_error([&] { s.get_int("b"); }) == "f.yaml:2: b: expected an integer, found '1.5'");
    CHECK(config_error([&] { s.get_bool("c"); }) ==
          "f.yaml:3: c: expected true or false, found 'yes'");
    CHECK(config_error([&] { s.int_list("d"); }) ==
          "f.yaml:4: d[1]: expected an integer, found 'x'");
    CHECK(config_error([&] { s.get_string("e"); }) ==
          "f.yaml:5: e: expected a text, found a mapping");
    CHECK(config_error([&] { s.get_string("g"); }) ==
          "f.yaml:6: g: expected a text, found nothing");
    CHECK(config_error([&] { s.int_or("g", 1); }) ==
          "f.yaml:6: g: expected an integer, found nothing");
    CHECK(config_error([&] { s.get_int("h"); }) ==
          "f.yaml:7: h: expected an integer, found the text '1'");
    CHECK(config_error([&] { s.get_double("i"); }) ==
          "f.yaml:8: i: expected a number, found '.inf'");
    CHECK(config_error([&] { s.get_int("j"); }) ==
          "f.yaml:9: j: expected an integer, found '99999999999999999999'");
    CHECK(config_error([&] { s.string_list("k"); }) ==
          "f.yaml:10: k[1]: expected a text, found a list");
    CHECK(config_error([&] { s.string_list("a"); }) == "f.yaml:1: a: expected a list, found 'six'");
    CHECK(config_error([&] { s.child("a"); }) == "f.yaml:1: a: expected a mapping, found 'six'");
    CHECK(config_error([&] { s.children("l"); }) ==
          "f.yaml:11: l[0]: expected a mapping, found '1'");
    CHECK(config_error([&] { s.get_int("n"); }) ==
          "f.yaml:12: n: expected an integer, found '1e3'");
    CHECK(config_error([&] { s.child("e").get_string("f2"); }) ==
          "f.yaml:5: missing key 'e.f2' (a text); is it meant by 'f' at f.yaml:5?");
    CHECK(config_error([&] { s.get_int("missing_one"); }) ==
          "f.yaml:1: missing key 'missing_one' (an integer)");
}

TEST_CASE("unread keys are errors with a suggestion, at any depth") {
    const Section s =
        load_text("search:\n  beams: 3\nlist:\n  - {a: 1}\n  - {a: 1,\n     b: 2}\n", "f.yaml");
    s.child("search").int_or("beam", 1);
    CHECK(config_error([&] { s.finish(); }) ==
          "f.yaml:2: unknown key 'search.beams'; did you mean 'beam'?");
    s.child("search").int_or("beams", 1);
    CHECK(config_error([&] { s.finish(); }) ==
          "f.yaml:3: unknown key 'list'; the keys here are search");
    for (const Section& item : s.children("list")) item.get_int("a");
    CHECK(config_error([&] { s.finish(); }) ==
          "f.yaml:6: unknown key 'list[1].b'; did you mean 'a'?");
    s.children("list")[1].get_int("b");
    s.finish();
}

TEST_CASE("choices and failures carry the key's place") {
    const Section s = load_text("a:\n  variant: papr\n", "f.yaml");
    const Section a = s.child("a");
    CHECK(config_error([&] {
              a.require_one_of("variant", "papr", {"repository", "paper"});
          }) ==
          "f.yaml:2: a.variant: 'papr' is not one of repository, paper; did you mean 'paper'?");
    CHECK(config_error([&] { a.fail("variant", "is bad"); }) == "f.yaml:2: a.variant: is bad");
    CHECK(config_error([&] { a.fail("absent", "is bad"); }) == "f.yaml:1: a.absent: is bad");
}

TEST_CASE("quotes, block texts and a byte order mark are read as YAML says") {
    const Section s = load_text(
        "\xef\xbb\xbf# \xc3\xa9\na: 'it''s'\r\nb: \"x \\\" \\\\\"\nc: |\n  one 'two\n  three\nd: "
        "''\n"
        "e: \"\"\n\"f\": 'last'",
        "f.yaml");
    CHECK(s.get_string("a") == "it's");
    CHECK(s.get_string("b") == "x \" \\");
    CHECK(s.get_string("c") == "one 'two\nthree\n");
    CHECK(s.get_string("d").empty());
    CHECK(s.get_string("e").empty());
    CHECK(s.get_string("f") == "last");
}

TEST_CASE("duplicate keys are errors wherever they stand") {
    CHECK(load_error("a: 1\nb: 2\na: 3\n") == "f.yaml:3: duplicate key 'a' (first at f.yaml:1)");
    CHECK(load_error("x:\n  a: 1\n  'a': 3\n") ==
          "f.yaml:3: duplicate key 'a' (first at f.yaml:2)");
    CHECK(load_error("x: [{a: 1,\n a: 3}]\n") == "f.yaml:2: duplicate key 'a' (first at f.yaml:1)");
}

TEST_CASE("YAML that is not a plain mapping is refused with its line") {
    CHECK(load_error("") == "f.yaml:1: the file is empty");
    CHECK(load_error("# only a comment\n\n") == "f.yaml:1: the file is empty");
    CHECK(load_error("- a\n- b\n") ==
          "f.yaml:1: expected keys and values (key: value), found a list");
    CHECK(load_error("just words\n") ==
          "f.yaml:1: expected keys and values (key: value), found a text");
    CHECK(load_error("a: 1\nb: &x 2\n") ==
          "f.yaml:2: YAML anchors (&name) are not supported: write the value out");
    CHECK_THAT(load_error("a: 1\nb: *x\n"), StartsWith("f.yaml:2: "));
    CHECK(load_error("a: 1\n<<: {b: 2}\n") ==
          "f.yaml:2: YAML merge keys (<<) are not supported: use base:");
    CHECK_THAT(load_error("a: !!binary abc\n"), StartsWith("f.yaml:1: YAML tags"));
    CHECK(load_error("a: 1\n---\nb: 2\n") == "f.yaml:3: holds more than one YAML document");
    CHECK(load_error("a: 1\n? [b, c]\n: 2\n") ==
          "f.yaml:2: a key must be a plain word, not a list or a mapping");
    CHECK_THAT(load_error("a: [1, 2\nb: 3\n"), StartsWith("f.yaml:"));
    CHECK_THAT(load_error("a: 1\n\tb: 2\n"), StartsWith("f.yaml:2: YAML syntax: "));
    CHECK(load_error("a: 1\nb: 'open\nc: 2\n") == "f.yaml:2: a quoted text is not closed");
    CHECK(load_error("# \xc3\xa9\r\nb: \"a \\\" b\r\nc: 2\r\n") ==
          "f.yaml:2: a quoted text is not closed");
    CHECK_THAT(load_error("a: 1\n b: 2\n"), StartsWith("f.yaml:"));
    CHECK(load_error(std::string("a: 1\nb: \0\n", 10)) == "f.yaml:2: is not UTF-8 text");
    CHECK(load_error("a: 1\nb: \xff\n") == "f.yaml:2: is not UTF-8 text");
    CHECK_THAT(load_error("a: " + std::string(5u << 20, 'x')), Contains("the limit is"));
}

TEST_CASE("hostile YAML is refused, not a crash or an explosion") {
    for (const char* open : {"[", "{a: ", "- ", "? ", "[{a: "}) {
        const std::string error = load_error("x: " + repeated(open, 50000));
        CHECK_THAT(error, StartsWith("f.yaml:1: "));
    }
    std::string blocks;
    for (int i = 0; i < 500; ++i) blocks += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    CHECK(load_error(blocks) == "f.yaml:33: nested more than 32 levels deep");
    std::string laughs = "a: &a [x, x, x, x]\n";
    for (char c = 'b'; c < 'k'; ++c) {
        const std::string before(1, static_cast<char>(c - 1));
        laughs += std::string(1, c) + ": &" + c + " [" + repeated("*" + before + ", ", 9) + "x]\n";
    }
    CHECK_THAT(load_error(laughs), StartsWith("f.yaml:1: YAML anchors"));
}

TEST_CASE("a file that cannot be read is named") {
    const TemporaryFolder folder;
    CHECK(config_error([&] { (void)load_file(folder.path("none.yaml")); }) ==
          folder.path("none.yaml") + ": no such file");
    CHECK(config_error([&] { (void)load_file(folder.path()); }) ==
          folder.path() + ": is a directory, not a file");
    CHECK_THAT(config_error([&] { (void)load_file("/dev/zero"); }), StartsWith("/dev/zero: "));
}

TEST_CASE("a base is inherited key by key and errors name the file of the value") {
    const TemporaryFolder folder;
    const std::string root =
        folder.write("sub/root.yaml", "a: 1\nlist: [1, 2]\nm:\n  x: 1\n  y: bad\n  z: 3\n");
    folder.write("sub/middle.yaml", "base: root.yaml\nb: 2\nm: {x: 5}\n");
    const std::string top =
        folder.write("top.yaml", "# top\nbase: sub/middle.yaml\nlist: [9]\nm:\n  w: no\n");
    const Section s = load_file(top);
    CHECK(s.get_int("a") == 1);
    CHECK(s.get_int("b") == 2);
    CHECK(s.int_list("list") == std::vector<std::int64_t>{9});
    const Section m = s.child("m");
    CHECK(m.get_int("x") == 5);
    CHECK(m.get_int("z") == 3);
    CHECK(config_error([&] { m.get_int("y"); }) ==
          root + ":5: m.y: expected an integer, found 'bad'");
    CHECK(config_error([&] { m.get_int("w"); }) ==
          top + ":5: m.w: expected an integer, found 'no'");
    CHECK(s.where("b") == folder.path("sub/middle.yaml") + ":2");
    CHECK_FALSE(s.has("base"));
    s.finish();
}

TEST_CASE("a base that cannot be used is an error at its line") {
    const TemporaryFolder folder;
    const std::string a = folder.write("a.yaml", "x: 1\nbase: b.yaml\n");
    const std::string b = folder.write("b.yaml", "base: ./a.yaml\n");
    CHECK(config_error([&] { (void)load_file(a); }) ==
          b + ":1: base: the files form a cycle: " + a + " -> " + b + " -> " + a);
    const std::string self = folder.write("self.yaml", "base: self.yaml\n");
    CHECK_THAT(config_error([&] { (void)load_file(self); }), Contains("form a cycle"));
    const std::string lost = folder.write("lost.yaml", "x: 1\nbase: none.yaml\n");
    CHECK(config_error([&] { (void)load_file(lost); }) ==
          lost + ":2: base: " + folder.path("none.yaml") + ": no such file");
    const std::string list = folder.write("list.yaml", "base: [a.yaml]\n");
    CHECK(config_error([&] { (void)load_file(list); }) ==
          list + ":1: base: expected the path of a file");
    CHECK(load_file(folder.write("null.yaml", "base: null\nx: 1\n")).get_int("x") == 1);
    CHECK(load_error("a: 1\nbase: b.yaml\n") ==
          "f.yaml:2: base: a file is needed to inherit from another file");
    for (int i = 0; i < 40; ++i) {
        folder.write("n" + std::to_string(i) + ".yaml",
                     "base: n" + std::to_string(i + 1) + ".yaml\n");
    }
    CHECK_THAT(config_error([&] { (void)load_file(folder.path("n0.yaml")); }),
               Contains("are too many"));
}

TEST_CASE("--set changes, adds and blames the option") {
    const TemporaryFolder folder;
    const std::string file =
        folder.write("c.yaml", "a: 1\nm:\n  x: 1\nmodels:\n  llama-3.1: {t: 1}\nempty: null\n");
    const Section s =
        load_file(file, {"a=5", "m.x=[1, 2]", "m.y=text = more", "models.llama-3.1.t=7",
                         "empty.k=2", "new.deep.key=3", "nothing=", "m={z: 4}", "a=6"});
    CHECK(s.get_int("a") == 6);
    CHECK(s.where("a") == "--set a=6");
    CHECK(s.child("m").int_list("x").size() == 2);
    CHECK(s.child("m").get_string("y") == "text = more");
    CHECK(s.child("m").get_int("z") == 4);
    CHECK(s.child("models").child("llama-3.1").get_int("t") == 7);
    CHECK(s.child("empty").get_int("k") == 2);
    CHECK(s.child("new").child("deep").get_int("key") == 3);
    CHECK(s.is_null("nothing"));

    const auto set_error = [&](const std::string& option) {
        return config_error([&] {
            const Section section = load_file(file, {option});
            section.int_or("a", 0);
            section.child("m").int_or("x", 0);
            section.child("models").child("llama-3.1").int_or("t", 0);
            section.optional_string("empty");
            section.finish();
        });
    };
    CHECK(set_error("a=six") == "--set a=six: a: expected an integer, found 'six'");
    CHECK(set_error("m=1") == "--set m=1: 'm' is a mapping; set one of its keys instead");
    CHECK(set_error("m=") == "--set m=: 'm' is a mapping; set one of its keys instead");
    CHECK(set_error("a.b=1") == "--set a.b=1: 'a' has no keys: it is set at " + file + ":1");
    CHECK(set_error("m.xx=1") == "--set m.xx=1: unknown key 'm.xx'; did you mean 'x'?");
    CHECK(set_error("modells.b=1") ==
          "--set modells.b=1: unknown key 'modells'; did you mean 'models'?");
    CHECK(set_error("a") == "--set a: expected key=value");
    CHECK(set_error("=1") == "--set =1: expected key=value");
    CHECK(set_error("m..x=1") == "--set m..x=1: a part of the key is empty");
    CHECK(set_error("base=x") == "--set base=x: base belongs in the file");
    CHECK_THAT(set_error("a=[1"), StartsWith("--set a=[1: YAML syntax: "));
    CHECK_THAT(set_error("a=&x 1"), StartsWith("--set a=&x 1: YAML anchors"));
    CHECK(set_error("a=\xff") == "--set a=\xff: is not UTF-8 text");
    CHECK(set_error("m={x: 1, x: 2}") ==
          "--set m={x: 1, x: 2}: duplicate key 'x' (first at --set m={x: 1, x: 2})");
}
