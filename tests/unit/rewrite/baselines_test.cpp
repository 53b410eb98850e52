#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "kernels.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "rewrite/plan.h"

namespace accelopt::rewrite {
namespace {

/// What a search can know of a site without line numbers.
std::multiset<std::string> fingerprint(const std::vector<Site>& sites) {
    std::multiset<std::string> out;
    for (const Site& site : sites) {
        std::string text = site.rule;
        for (const auto& [name, value] : site.parameters) {
            text += " " + name + "=" + std::to_string(value);
        }
        out.insert(text);
    }
    return out;
}

std::vector<Site> all_sites(const std::string& source, const Shapes& shapes) {
    Rewriter rewriter;
    auto sites = rewriter.sites(source, shapes);
    REQUIRE(sites.ok());
    return *sites;
}

/// Every rewrite of every site, by fingerprint, as normalised hashes.
std::multiset<std::string> outcomes(const std::string& source, const Shapes& shapes) {
    Rewriter rewriter;
    std::multiset<std::string> out;
    for (const Site& site : all_sites(source, shapes)) {
        const auto text = rewriter.apply(source, shapes, {step_of(site)});
        INFO((text ? std::string() : text.error()));
        REQUIRE(text.ok());
        const auto module = nki::parse(*text);
        REQUIRE(module.ok());
        out.insert(nki::normalised_hash(*module));
    }
    return out;
}

TEST_CASE("every rewrite of the baselines is a kernel that traces") {
    for (const Baseline& baseline : baselines()) {
        const std::string source = baseline.source();
        const auto sites = all_sites(source, baseline.shapes);
        INFO(baseline.name);
        CHECK(!sites.empty());
        Rewriter rewriter;
        for (const Site& site : sites) {
            const std::string line = plan_line({step_of(site)});
            INFO(line);
            const auto text = rewriter.apply(source, baseline.shapes, {step_of(site)});
            REQUIRE(text.ok());
            CHECK(*text != source);
            check_kernel(*text, baseline.shapes);
        }
    }
}

TEST_CASE("rewrites of rewritten kernels trace too") {
    for (const Baseline& baseline : baselines()) {
        Rewriter rewriter;
        const std::string source = baseline.source();
        for (const Site& first : all_sites(source, baseline.shapes)) {
            const auto once = rewriter.apply(source, baseline.shapes, {step_of(first)});
            REQUIRE(once.ok());
            for (const Site& second : all_sites(*once, baseline.shapes)) {
                const std::string line = plan_line({step_of(first), step_of(second)});
                INFO(baseline.name << " " << line);
                const auto twice =
                    rewriter.apply(source, baseline.shapes, {step_of(first), step_of(second)});
                REQUIRE(twice.ok());
                CHECK(trace_failure(*twice, baseline.shapes) == "");
            }
        }
    }
}

TEST_CASE("renamed copies get the same rewrites") {
    for (const Baseline& baseline : baselines()) {
        INFO(baseline.name);
        const std::string copy = renamed(baseline.source());
        check_kernel(copy, baseline.shapes);
        CHECK(outcomes(copy, baseline.shapes) == outcomes(baseline.source(), baseline.shapes));
    }
}

TEST_CASE("copies with sizes spelled as literals get the same rewrites") {
    for (const Baseline& baseline : baselines()) {
        INFO(baseline.name);
        const std::string copy = without_named_constants(baseline.source());
        check_kernel(copy, baseline.shapes);
        CHECK(fingerprint(all_sites(copy, baseline.shapes)) ==
              fingerprint(all_sites(baseline.source(), baseline.shapes)));
        for (const Site& site : all_sites(copy, baseline.shapes)) {
            Rewriter rewriter;
            const auto text = rewriter.apply(copy, baseline.shapes, {step_of(site)});
            REQUIRE(text.ok());
            check_kernel(*text, baseline.shapes);
        }
    }
}

TEST_CASE("a changed shape changes widths, not rewrites") {
    const std::map<std::string, Shapes> changed = {
        {"silu", {{128, 32, 6144}}},
        {"rope_single_freq_apply", {{128, 131072}, {64, 131072}, {64, 131072}}},
        {"adamw", {{4096, 4096}, {4096, 4096}, {4096, 4096}, {4096, 4096}}},
        {"rmsnorm_matmul", {{32, 128, 1024}, {8, 128, 4096}}},
        {"add_rmsnorm_matmul", {{2048, 1024}, {1024, 2048}, {2048, 1024}, {1024}}}};
    auto rules = [](const std::vector<Site>& sites) {
        std::set<std::string> out;
        for (const Site& site : sites) out.insert(site.rule);
        return out;
    };
    for (const Baseline& baseline : baselines()) {
        INFO(baseline.name);
        const Shapes& shapes = changed.at(baseline.name);
        const auto sites = all_sites(baseline.source(), shapes);
        CHECK(rules(sites) == rules(all_sites(baseline.source(), baseline.shapes)));
        for (const Site& site : sites) {
            Rewriter rewriter;
            const auto text = rewriter.apply(baseline.source(), shapes, {step_of(site)});
            REQUIRE(text.ok());
            check_kernel(*text, shapes);
        }
    }
}

TEST_CASE("without shapes rules keep to what the kernel says itself") {
    for (const Baseline& baseline : baselines()) {
        INFO(baseline.name);
        Rewriter rewriter;
        const auto sites = rewriter.sites(baseline.source(), {});
        REQUIRE(sites.ok());
        for (const Site& site : *sites) {
            const auto text = rewriter.apply(baseline.source(), {}, {step_of(site)});
            REQUIRE(text.ok());
            CHECK(trace_failure(*text, baseline.shapes) == "");
        }
    }
}

}  // namespace
}  // namespace accelopt::rewrite
