/// Runs kernels on given arrays and hands back every output element, which the evaluator never
/// does: the machine side of api_differential_test.py.
///
///     kernel_runner --apis
///     kernel_runner INPUT_FILE OUTPUT_FILE <jobs >replies
///
/// One JSON job per line: {"id", "source", "entry", "target", "core_version", "grid", "inputs":
/// [{"shape", "dtype", "offset"} or {"integer"}]}, offsets in bytes into INPUT_FILE. One reply per
/// line, flushed, so that a crash is traced to the job after the last reply: {"id", "outcome",
/// "code", "message", "line", "outputs": [{"shape", "dtype", "offset", "bytes", "unwritten"}]},
/// offsets into OUTPUT_FILE. Outcome "internal" stands for an exception, which no kernel may cause.
/// Every kernel also runs in the order in which the timing model completes it: rejected/hazard
/// where the two executions differ.
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "eval/evaluator.h"
#include "eval/trace_options.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "trainium/completion_order.h"
#include "trainium/execute.h"

namespace {

using nlohmann::json;
namespace nki = accelopt::nki;
namespace trainium = accelopt::trainium;

constexpr nki::DType kLastDType = nki::DType::kBool;

nki::DType dtype_of(const std::string& name) {
    for (int k = 0; k <= static_cast<int>(kLastDType); ++k) {
        if (nki::to_string(static_cast<nki::DType>(k)) == name) return static_cast<nki::DType>(k);
    }
    throw std::invalid_argument("no dtype " + name);
}

class Runner {
  public:
    Runner(const std::string& input_file, const std::string& output_file)
        : outputs_(output_file, std::ios::binary) {
        std::ifstream in(input_file, std::ios::binary);
        inputs_.assign(std::istreambuf_iterator<char>(in), {});
        if (!in || !outputs_) throw std::runtime_error("cannot open the array files");
    }

    json run(const json& job) {
        try {
            return evaluate(job);
        } catch (const std::exception& error) {
            return {{"outcome", "internal"}, {"message", error.what()}};
        }
    }

  private:
    const trainium::Machine& machine(const std::string& target) {
        const auto found = machines_.find(target);
        if (found != machines_.end()) return found->second;
        return machines_.emplace(target, accelopt::eval::load_machine(target)).first->second;
    }

    static json reply_of(const nki::Finding& finding) {
        return {{"outcome", finding.outcome},
                {"code", finding.code},
                {"message", finding.message},
                {"line", finding.line}};
    }

    json evaluate(const json& job) {
        const trainium::Machine& target = machine(job.at("target"));
        auto module = nki::parse(job.at("source").get<std::string>());
        if (!module) return {{"outcome", "syntax_error"}, {"message", module.error().message}};
        std::vector<nki::Argument> arguments;
        std::vector<trainium::InputArray> arrays;
        for (const json& input : job.at("inputs")) {
            if (input.contains("integer")) {
                arguments.emplace_back(input.at("integer").get<std::int64_t>());
                continue;
            }
            nki::TensorArgument argument;
            argument.shape = input.at("shape").get<std::vector<std::int64_t>>();
            argument.dtype = dtype_of(input.at("dtype"));
            std::int64_t bytes = nki::size_of(argument.dtype);
            for (const std::int64_t n : argument.shape) bytes *= n;
            arrays.push_back({inputs_.data() + input.at("offset").get<std::size_t>(), bytes});
            arguments.emplace_back(std::move(argument));
        }
        nki::TraceOptions options = accelopt::eval::trace_options(target);
        options.core_version = job.value("core_version", options.core_version);
        options.grid = job.value("grid", options.grid);
        if (job.contains("entry")) options.entry = job.at("entry").get<std::string>();
        auto program = nki::trace(*module, arguments, options);
        if (!program) return reply_of(program.error());
        if (auto finding = trainium::check_legality(*program, target)) return reply_of(*finding);
        auto executed = trainium::execute(*program, arrays, {});
        if (!executed) return reply_of(executed.error());
        const auto compiled = trainium::compile_kernel(*program, target);
        if (auto hazard = trainium::find_hazard(*program, compiled, arrays, {}, *executed)) {
            return reply_of(*hazard);
        }
        json reply = {{"outcome", "ok"}, {"outputs", json::array()}};
        for (const trainium::OutputArray& output : *executed) {
            reply["outputs"].push_back({{"shape", output.shape},
                                        {"dtype", std::string(nki::to_string(output.dtype))},
                                        {"offset", written_},
                                        {"bytes", output.bytes.size()},
                                        {"unwritten", output.unwritten_elements}});
            outputs_.write(reinterpret_cast<const char*>(output.bytes.data()),
                           static_cast<std::streamsize>(output.bytes.size()));
            written_ += output.bytes.size();
        }
        outputs_.flush();
        return reply;
    }

    std::vector<char> inputs_;
    std::ofstream outputs_;
    std::size_t written_ = 0;
    std::map<std::string, trainium::Machine> machines_;
};

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() == 1 && arguments[0] == "--apis") {
        for (const std::string& name : nki::api_entries()) std::cout << name << '\n';
        return 0;
    }
    if (arguments.size() != 2) {
        std::cerr << "usage: kernel_runner --apis | INPUT_FILE OUTPUT_FILE <jobs >replies\n";
        return 2;
    }
    try {
        Runner runner(arguments[0], arguments[1]);
        std::string line;
        while (std::getline(std::cin, line)) {
            const json job = json::parse(line);
            json reply = runner.run(job);
            reply["id"] = job.at("id");
            std::cout << reply.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
        }
    } catch (const std::exception& error) {
        std::cerr << "kernel_runner: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
