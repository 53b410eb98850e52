#include "report/grid.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using accelopt::Error;
using accelopt::report::Grid;
using accelopt::report::render_grid;

namespace {

Grid sample_grid() {
    Grid grid;
    grid.columns = {{"name", false}, {"value", true}};
    grid.rows = {{"a_b", "1.5"}, {"x, \"y\" | 50%", "12.25"}, {"total", "13.75"}};
    grid.last_row_is_total = true;
    return grid;
}

}  // namespace

TEST_CASE("Text is aligned, numbers to the right, the total apart") {
    CHECK(render_grid(sample_grid(), "text") ==
          "name          value\n"
          "-------------------\n"
          "a_b             1.5\n"
          "x, \"y\" | 50%  12.25\n"
          "-------------------\n"
          "total         13.75\n");
}

TEST_CASE("CSV quotes commas and quotes as RFC 4180 says") {
    CHECK(render_grid(sample_grid(), "csv") ==
          "name,value\na_b,1.5\n\"x, \"\"y\"\" | 50%\",12.25\ntotal,13.75\n");
}

TEST_CASE("Markdown escapes bars and aligns numbers") {
    CHECK(render_grid(sample_grid(), "md") ==
          "| name | value |\n| --- | ---: |\n| a_b | 1.5 |\n| x, \"y\" \\| 50% | 12.25 |\n"
          "| total | 13.75 |\n");
}

TEST_CASE("LaTeX escapes its special characters") {
    CHECK(render_grid(sample_grid(), "latex") ==
          "\\begin{tabular}{lr}\n\\toprule\nname & value \\\\\n\\midrule\n"
          "a\\_b & 1.5 \\\\\nx, \"y\" | 50\\% & 12.25 \\\\\n\\midrule\ntotal & 13.75 \\\\\n"
          "\\bottomrule\n\\end{tabular}\n");
}

TEST_CASE("Characters outside ASCII take one column") {
    Grid grid;
    grid.columns = {{"n", false}, {"v", true}};
    grid.rows = {{"äöü", "1"}, {"abc", "2"}};
    CHECK(render_grid(grid, "text") == "n    v\n------\näöü  1\nabc  2\n");
}

TEST_CASE("A table without rows is its header") {
    Grid grid;
    grid.columns = {{"name", false}};
    grid.last_row_is_total = true;
    CHECK(render_grid(grid, "text") == "name\n----\n");
}

TEST_CASE("An unknown format suggests the nearest one") {
    CHECK_THROWS_WITH(render_grid(sample_grid(), "txet"), Catch::Contains("did you mean \"text\""));
    CHECK_THROWS_AS(render_grid(sample_grid(), "pdf"), Error);
}

TEST_CASE("A row that does not fill its columns is refused") {
    Grid grid = sample_grid();
    grid.rows.push_back({"alone"});
    CHECK_THROWS_AS(render_grid(grid, "text"), Error);
}
