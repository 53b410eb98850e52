#include "cluster/run_context.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "cluster/framing.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/version.h"

namespace accelopt::cluster {

std::string RunContext::serialise() const {
    std::ostringstream header;
    header << launch << ' ' << ranks << ' ' << (coordinator_works ? 1 : 0) << ' ' << machine_hash;
    return frame(header.str(), frame(directory, config.resolved));
}

RunContext RunContext::parse(const std::string& payload) {
    RunContext context;
    const auto [header, rest] = unframe(payload);
    const auto [directory, resolved] = unframe(rest);
    std::istringstream in(header);
    int works = 0;
    in >> context.launch >> context.ranks >> works >> context.machine_hash;
    require(!in.fail(), "malformed start message");
    context.coordinator_works = works != 0;
    context.directory = directory;
    context.config = config::parse_resolved_config(resolved, directory + "/resolved.yaml");
    return context;
}

std::string RunContext::secret() const {
    if (config.secret_env) {
        const char* value = std::getenv(config.secret_env->c_str());
        if (!value || !*value) {
            throw Error(ErrorSource::kConfig, "secret_env",
                        "run.secret_env: the environment variable " + *config.secret_env +
                            " is not set on this rank");
        }
        return sha256_hex("accelopt-run-secret/" + std::string(value));
    }
    return sha256_hex("accelopt-run-seed/" + std::to_string(config.seed));
}

std::string RunContext::evaluation_key(const std::string& problem,
                                       const std::string& source) const {
    return sha256_hex("evaluation/" + problem + "/" + config.shape + "/" + config.target + "/" +
                      machine_hash + "/" + config.verify_rule + "/" +
                      std::to_string(config.verify_seeds.size()) +
                      (config.verify_published_seeds ? " published" : "") +
                      (config.verify_stress ? " stress" : "") + "/" + sha256_hex(secret()) + "/" +
                      std::string(kVersion) + "/" + sha256_hex(source))
        .substr(0, 32);
}

std::string RunContext::cache_directory() const {
    if (config.evaluator_cache) return *config.evaluator_cache;
    const char* temporary = std::getenv("TMPDIR");
    return std::string(temporary && *temporary ? temporary : "/tmp") + "/accelopt-cache-" +
           std::to_string(getuid());
}

int automatic_slots(int workers_on_node) {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return std::max(1, cores / std::max(1, workers_on_node));
}

agents::ProblemFacts problem_facts(const eval::Problem& problem) {
    agents::ProblemFacts facts;
    facts.id = problem.id;
    facts.title = problem.title;
    facts.reference_source = read_file(problem.reference_path);
    for (const auto& input : problem.inputs) {
        if (input.tensor) facts.input_shapes.push_back(input.kernel_shape);
    }
    return facts;
}

}  // namespace accelopt::cluster
