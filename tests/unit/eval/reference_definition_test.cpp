#include "eval/reference/reference_definition.h"

#include <catch2/catch.hpp>

#include "core/text.h"
#include "eval/problem.h"

using namespace accelopt;
using eval::reference_definition;

namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the definition is forward and what it uses, text as written") {
    const auto definition = reference_definition(R"("""Opening."""
import math
import numpy as np

# How far it reaches.
REACH = 3  # elements
LIMIT = 7
A = B = REACH


def inner(x):
    return x + B


# Judges.
def scale(x):
    return inner(x) + LIMIT


def forward(x):
    """What it does."""
    return np.abs(inner(x))  # done


def without_reach(x):
    return x
)");
    REQUIRE(definition.ok());
    CHECK(*definition == R"("""Opening."""
import numpy as np
# How far it reaches.
REACH = 3  # elements
A = B = REACH


def inner(x):
    return x + B


def forward(x):
    """What it does."""
    return np.abs(inner(x))  # done
)");
}

TEST_CASE("definitions of all shipped problems tell the formula and nothing that judges", "[N14]") {
    for (const std::string& id : eval::shipped_problems()) {
        const eval::Problem problem = eval::load_problem(id, "full");
        INFO(id);
        const auto definition = reference_definition(read_file(problem.reference_path));
        REQUIRE(definition.ok());
        CHECK(contains(*definition, "def forward("));
        CHECK_FALSE(contains(*definition, "def scale("));
        CHECK_FALSE(contains(*definition, "def without_"));
        CHECK_FALSE(contains(*definition, "UNDERFLOW"));
    }
}

TEST_CASE("a text without forward, or no Python, is an error that says so") {
    CHECK(contains(reference_definition("def scale(x):\n    return x\n").error(),
                   "defines no forward()"));
    CHECK(contains(reference_definition("def forward(x:\n").error(), "SyntaxError"));
}
