// Mutated requests through what accelopt-eval does with a line: parse, evaluate, answer in one
// line. A rule is broken when a request crashes, hangs, gets an outcome outside the closed list or
// the reason "internal", or an answer that is not one line that parses back.
//
//   fuzz_protocol [--seed N] [--executions N] [--seconds S] [--findings DIR] [--first INDEX]

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/rng.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "fork_runner.h"
#include "protocol/evaluation.h"

namespace accelopt::fuzz {
namespace {

using nlohmann::json;

json request_for(const std::string& problem, const std::string& rule, const json& tiers) {
    return {{"schema", 1},
            {"id", "fuzz"},
            {"problem", problem},
            {"target", "trn1"},
            {"shape", "test"},
            {"source", eval::load_problem(problem, "test").baseline_source},
            {"entry", nullptr},
            {"rule", rule},
            {"seeds", {0, 1}},
            {"secret", "s"},
            {"tiers", tiers},
            {"limits", {{"steps", 300000}, {"memory_bytes", 600000000}, {"wall_s", 30}}}};
}

json odd_value(RandomStream& random) {
    switch (random.below(16)) {
        case 0:
            return nullptr;
        case 1:
            return -1;
        case 2:
            return std::int64_t{9223372036854775807};
        case 3:
            return 18446744073709551615ULL;
        case 4:
            return 1e308;
        case 5:
            return "";
        case 6:
            return std::string(5000, 'x');
        case 7:
            return json::array();
        case 8:
            return json::object();
        case 9:
            return true;
        case 10:
            return "values";
        case 11:
            return "conditioned";
        case 12:
            return json::array({-1, 1, "2"});
        case 13:
            return "../silu";
        case 14:
            return "\xc3\xa9\xf0\x9f\x98\x80 \t";
        default: {
            json deep = 1;
            for (std::uint64_t k = random.below(300); k > 0; --k) deep = json::array({deep});
            return deep;
        }
    }
}

void mutate_value(json& value, RandomStream& random, int depth = 0) {
    if (value.is_object() && !value.empty() && depth < 4 && random.below(4) != 0) {
        auto member = value.begin();
        std::advance(member, random.below(value.size()));
        switch (random.below(4)) {
            case 0: {
                const std::string key = member.key();
                value.erase(key);
                return;
            }
            case 1:
                value[member.key() + (random.below(2) == 0 ? "x" : "")] = odd_value(random);
                return;
            default:
                mutate_value(member.value(), random, depth + 1);
                return;
        }
    }
    if (value.is_array() && !value.empty() && random.below(3) != 0) {
        const std::size_t at = random.below(value.size());
        if (random.below(3) == 0) value.push_back(value[at]);
        mutate_value(value[at], random, depth + 1);
        return;
    }
    if (value.is_string() && random.below(2) == 0) {
        std::string text = value.get<std::string>();
        if (!text.empty()) {
            const std::size_t at = random.below(text.size());
            if (random.below(2) == 0) {
                text.erase(at, 1 + random.below(20));
            } else {
                text.insert(at, text.substr(random.below(text.size()), random.below(40)));
            }
        }
        value = text;
        return;
    }
    value = odd_value(random);
}

std::string mutate_bytes(std::string line, RandomStream& random) {
    for (std::uint64_t n = 1 + random.below(4); n > 0 && !line.empty(); --n) {
        const std::size_t at = random.below(line.size());
        switch (random.below(5)) {
            case 0:
                line[at] = static_cast<char>(random.below(256));
                break;
            case 1:
                line.erase(at, 1 + random.below(8));
                break;
            case 2:
                line.insert(at, line.substr(random.below(line.size()), random.below(30)));
                break;
            case 3:
                line.resize(at);
                break;
            default:
                line.insert(at, 1, "{}[]\",:\\0-9e"[random.below(12)]);
                break;
        }
    }
    for (char& c : line)
        if (c == '\n') c = ' ';
    return line;
}

class Judge {
  public:
    Verdict run(const std::string& line) {
        protocol::EvaluationReply reply;
        auto request = protocol::parse_evaluation_request(line);
        if (!request) {
            return {"refused", request.error().empty() ? "refused without a reason" : ""};
        }
        // A mutant may ask for the full size, which takes seconds, or for thousands of input sets.
        if (request->shape == "full") request->tiers = {"legality"};
        if (request->seeds.size() > 3) request->seeds.resize(3);
        request->limits.memory_bytes =
            std::min<std::int64_t>(request->limits.memory_bytes, 2'000'000'000);
        request->limits.steps = std::min<std::int64_t>(request->limits.steps, 2'000'000);
        try {
            if (!evaluator_)
                evaluator_ = std::make_unique<eval::Evaluator>(eval::EvaluatorOptions{});
            reply = evaluator_->evaluate(*request);
        } catch (const std::exception& error) {
            return {"exception", std::string("exception: ") + error.what()};
        }
        std::string outcome(to_string(reply.outcome));
        if (reply.outcome != protocol::Outcome::kSyntaxError && !reply.reason.empty())
            outcome += "/" + reply.reason;
        Verdict verdict{outcome, ""};
        if (reply.reason == "internal") {
            verdict.fault = "internal: ";
            if (!reply.diagnostics.empty()) verdict.fault += reply.diagnostics[0].message;
        }
        const std::string text = to_json(reply);
        if (text.find('\n') != std::string::npos) verdict.fault = "a reply of several lines";
        const auto back = protocol::parse_evaluation_reply(text);
        if (!back) verdict.fault = "the reply does not parse: " + back.error();
        if (reply.outcome != protocol::Outcome::kOk && reply.diagnostics.empty())
            verdict.fault = "no diagnostic";
        return verdict;
    }

  private:
    std::unique_ptr<eval::Evaluator> evaluator_;
};

int main_of(int argc, char** argv) {
    FuzzOptions options;
    options.batch = 400;
    int status = 0;
    if (!parse_options(argc, argv, "Fuzzes the evaluator's JSON line protocol.", options, status))
        return status;
    const json usual = {"legality", "timing", "values"};
    const json all = {"legality", "timing", "seed", "values", "stress", "order"};
    const std::vector<json> requests = {
        request_for("silu", "published", usual), request_for("adamw", "published", usual),
        request_for("rmsnorm_matmul", "published", usual), request_for("silu", "conditioned", all)};
    const auto make = [&](std::int64_t index) {
        RandomStream random =
            RandomStream::keyed(options.seed, "fuzz_protocol/" + std::to_string(index));
        json request = requests[random.below(requests.size())];
        if (random.below(3) == 0) {
            return mutate_bytes(request.dump(-1, ' ', false, json::error_handler_t::replace),
                                random);
        }
        for (std::uint64_t n = 1 + random.below(3); n > 0; --n) mutate_value(request, random);
        return request.dump(-1, ' ', random.below(2) == 0, json::error_handler_t::replace);
    };
    Judge judge;
    return run_forked(options, ".json", make,
                      [&](const std::string& line) { return judge.run(line); });
}

}  // namespace
}  // namespace accelopt::fuzz

int main(int argc, char** argv) {
    try {
        return accelopt::fuzz::main_of(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fuzz_protocol: %s\n", error.what());
        return 70;
    }
}
