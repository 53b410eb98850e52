#include "eval/reference/input_set.h"

#include "core/error.h"
#include "core/hash.h"

namespace accelopt::eval {

namespace {

std::string shape_key(const std::vector<std::int64_t>& shape) {
    std::string text;
    for (const std::int64_t extent : shape) text += std::to_string(extent) + ",";
    return text;
}

/// One-way and unambiguous: lengths keep (secret, id) pairs apart whatever characters they hold.
std::string derive(const std::string& secret, const std::string& problem_id,
                   const std::string& which) {
    return sha256_hex("accelopt input seed 1\n" + std::to_string(secret.size()) + ":" + secret +
                      std::to_string(problem_id.size()) + ":" + problem_id + which);
}

}  // namespace

std::string InputSet::key_of(std::size_t index) const {
    const auto one = [&](std::size_t i) {
        return shape_key(inputs[i].shape) + " " + to_key(inputs[i].distribution) + "\n";
    };
    if (!published_seed) return inputs[index].name + " " + one(index) + seeds.at(index);
    std::string text = "published " + std::to_string(*published_seed) + "\n";
    for (std::size_t i = 0; i <= index; ++i) {
        if (inputs[i].tensor) text += one(i);
    }
    return text;
}

std::string input_seed(const std::string& secret, const std::string& problem_id, int k) {
    return derive(secret, problem_id, std::to_string(k));
}

InputSet nominal_set(const Problem& problem, const std::string& secret, int k) {
    InputSet set;
    set.inputs = problem.inputs;
    set.seeds.assign(set.inputs.size(), input_seed(secret, problem.id, k));
    return set;
}

InputSet published_set(const Problem& problem, int seed) {
    InputSet set;
    set.inputs = problem.inputs;
    set.published_seed = seed;
    return set;
}

InputSet stress_set(const Problem& problem, const std::string& secret, const StressSet& stress) {
    require(stress.replaced.size() == stress.inputs.size(), "a stress set lost its inputs");
    InputSet set;
    set.name = stress.name;
    set.inputs = stress.inputs;
    for (std::size_t i = 0; i < set.inputs.size(); ++i) {
        set.seeds.push_back(stress.replaced[i] ? derive(secret, problem.id, "stress/" + stress.name)
                                               : input_seed(secret, problem.id, 0));
    }
    return set;
}

}  // namespace accelopt::eval
