#include "eval/distribution.h"

#include <fmt/format.h>

#include <cmath>

namespace accelopt::eval {

namespace {

double finite_at(const config::Section& section, const std::string& key) {
    const double value = section.get_double(key);
    if (!std::isfinite(value)) section.fail(key, "must be finite");
    return value;
}

double finite_or(const config::Section& section, const std::string& key, double fallback) {
    return section.has(key) ? finite_at(section, key) : fallback;
}

void read_range(const config::Section& section, Distribution& drawn) {
    drawn.low = finite_at(section, "low");
    drawn.high = finite_at(section, "high");
    if (!(drawn.low < drawn.high)) section.fail("high", "must be larger than low");
}

void read_axis(const config::Section& section, const std::vector<std::int64_t>& shape,
               Distribution& drawn) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t axis = section.get_int("axis");
    if (axis < -rank || axis >= rank) {
        section.fail("axis", fmt::format("the tensor has {} dimensions", rank));
    }
    drawn.axis = static_cast<int>(axis < 0 ? axis + rank : axis);
}

void read_index(const config::Section& section, const std::vector<std::int64_t>& shape,
                Distribution& drawn) {
    const std::int64_t extent = shape.at(static_cast<std::size_t>(drawn.axis));
    const std::int64_t at = section.get_int("at");
    if (at < -extent || at >= extent) {
        section.fail("at", fmt::format("dimension {} has {} elements", drawn.axis, extent));
    }
    drawn.at = at < 0 ? at + extent : at;
}

}  // namespace

const std::vector<std::string>& distribution_kinds() {
    static const std::vector<std::string> kKinds = {
        "normal", "abs_normal", "uniform",  "wide_range", "positive_wide_range",
        "offset", "integers",   "constant", "spikes",     "growing",
        "needle", "impulse"};
    return kKinds;
}

Distribution read_distribution(const config::Section& section,
                               const std::vector<std::int64_t>& shape) {
    Distribution drawn;
    drawn.kind = section.get_string("distribution");
    section.require_one_of("distribution", drawn.kind, distribution_kinds());
    const auto is = [&](const char* kind) { return drawn.kind == kind; };
    if (is("uniform") || is("wide_range") || is("positive_wide_range")) {
        read_range(section, drawn);
    } else if (is("integers")) {
        read_range(section, drawn);
        for (const char* key : {"low", "high"}) {
            const double bound = section.get_double(key);
            if (bound != std::floor(bound) || std::abs(bound) > 1 << 24) {
                section.fail(key, "must be a whole number that float32 holds exactly");
            }
        }
    } else if (is("offset")) {
        drawn.value = finite_at(section, "value");
        drawn.deviation = finite_or(section, "deviation", 1);
    } else if (is("constant")) {
        drawn.value = finite_at(section, "value");
    } else if (is("spikes")) {
        read_axis(section, shape, drawn);
        read_index(section, shape, drawn);
        drawn.value = finite_at(section, "value");
        drawn.base = section.string_or("base", "normal");
        section.require_one_of("base", drawn.base, {"normal", "abs_normal"});
    } else if (is("growing")) {
        read_axis(section, shape, drawn);
        drawn.from = finite_at(section, "from");
        drawn.to = finite_at(section, "to");
    } else if (is("needle") || is("impulse")) {
        read_axis(section, shape, drawn);
        if (is("impulse")) read_index(section, shape, drawn);
        drawn.value = finite_at(section, "value");
        drawn.background = finite_at(section, "background");
    }
    drawn.scale = finite_or(section, "scale", 1);
    return drawn;
}

std::string to_key(const Distribution& d) {
    return fmt::format("{} axis={} at={} {} {} {} {} {} {} {} {} {}", d.kind, d.axis, d.at, d.low,
                       d.high, d.value, d.deviation, d.from, d.to, d.background, d.base, d.scale);
}

}  // namespace accelopt::eval
