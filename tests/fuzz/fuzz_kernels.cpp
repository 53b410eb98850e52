// Mutants of real kernels through the whole of the Trainium model: parse, trace, legality, timing
// and execution on small shapes, with small budgets. A rule of the product is broken when a mutant
// crashes, hangs, leaks, ends in anything but the closed list of outcomes, is accepted with a view
// that leaves its tensor, or computes other values in completion order than in program order.
// Inputs depend on the seed and the index alone.
//
//   fuzz_kernels [--seed N] [--executions N] [--seconds S] [--findings DIR] [--first INDEX]

#include <algorithm>
#include <cstring>
#include <set>

#include "core/error.h"
#include "eval/evaluator.h"
#include "fork_runner.h"
#include "kernel_mutation.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "protocol/outcome.h"
#include "support/program_equality.h"
#include "trainium/completion_order.h"
#include "trainium/execute.h"
#include "trainium/timing.h"
#ifdef __SANITIZE_ADDRESS__
// Of the sanitizers' allocator; GCC ships the function without its header.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace accelopt::fuzz {
namespace {

constexpr std::int64_t kMemory = 600'000'000;

/// Heap in use, where the allocator tells; else 0.
std::int64_t heap_bytes() {
#ifdef __SANITIZE_ADDRESS__
    return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
    return 0;
#endif
}

/// "" when every view of the program stays inside its tensor.
std::string out_of_bounds(const nki::Program& program) {
    const auto inside = [&](const nki::View& view) {
        const nki::Tensor& tensor = program.tensors.at(static_cast<std::size_t>(view.tensor));
        const bool hbm = tensor.buffer == nki::Buffer::kHbm;
        std::int64_t size = tensor.partitions * tensor.free_elements;
        if (hbm) {
            size = 1;
            for (const std::int64_t n : tensor.shape) size *= n;
        }
        std::int64_t low = view.offset;
        std::int64_t high = view.offset;
        for (int d = 0; d < view.rank; ++d) {
            const std::int64_t last = view.dims[d].stride * (view.dims[d].count - 1);
            (last < 0 ? low : high) += last;
        }
        return low >= 0 && high < size && view.block >= 0 && view.block < tensor.blocks;
    };
    for (const nki::Operation& operation : program.operations) {
        // The hull of a view that a slanted mask narrows may leave the tensor; execution is
        // watched instead.
        if (!operation.mask.empty()) continue;
        bool ok = inside(operation.dst);
        for (int k = 0; k < operation.sources; ++k) ok = ok && inside(operation.src[k]);
        for (const nki::ScalarOperand* scalar :
             {&operation.scale, &operation.bias, &operation.operand0, &operation.operand1})
            ok = ok && (!scalar->vector || inside(scalar->view));
        if (!ok)
            return "accepted an access outside its tensor, line " + std::to_string(operation.line);
    }
    return "";
}

class Judge {
  public:
    Judge() : machine_(eval::load_machine("trn1")) {}

    Verdict run(const std::string& source, const std::vector<nki::Argument>& arguments) {
        Verdict verdict = attempt(source, arguments);
        // What one run keeps may be a cache; what every run keeps is a leak.
        std::int64_t before = heap_bytes();
        if (verdict.fault.empty() && before > last_ + 65'536 && last_ > 0) {
            for (int k = 0; k < 3; ++k) {
                before = heap_bytes();
                attempt(source, arguments);
                if (heap_bytes() - before < 1024) break;
                if (k == 2)
                    verdict.fault = "leaks " + std::to_string(heap_bytes() - before) + " bytes";
            }
        }
        last_ = heap_bytes();
        return verdict;
    }

  private:
    static Verdict of(const nki::Finding& finding) {
        Verdict verdict{finding.outcome + "/" + finding.code, ""};
        const auto outcome = protocol::parse_outcome(finding.outcome);
        if (!outcome || finding.outcome == "evaluator_error")
            verdict.fault = "outcome outside the table: " + verdict.outcome;
        if (finding.code.empty() || finding.message.empty())
            verdict.fault = "a finding without code or message";
        if (finding.message.find("internal") != std::string::npos)
            verdict.fault = "says internal: " + finding.message;
        return verdict;
    }

    Verdict attempt(const std::string& source, const std::vector<nki::Argument>& arguments) {
        try {
            return evaluate(source, arguments);
        } catch (const std::exception& error) {
            return {"exception", std::string("exception: ") + error.what()};
        }
    }

    Verdict evaluate(const std::string& source, const std::vector<nki::Argument>& arguments) {
        auto module = nki::parse(source);
        if (!module) return {"syntax_error", module.error().message.empty() ? "no message" : ""};
        const std::string printed = nki::print(*module);
        const auto again = nki::parse(printed);
        if (!again || !nki::equal(*again, *module))
            return {"printer", "printing does not give the same tree"};
        nki::TraceOptions options;
        options.limits.steps = 300'000;
        options.limits.operations = 6'000;
        options.limits.memory_bytes = kMemory;
        auto program = nki::trace(*module, arguments, options);
        if (!program) return of(program.error());
        options.replay = false;
        const auto plain = nki::trace(*module, arguments, options);
        if (!plain) return {"replay", "accepted with replayed loops only"};
        const std::string differs = testing::difference(*plain, *program);
        if (!differs.empty()) return {"replay", "replayed loops differ: " + differs};
        const std::string outside = out_of_bounds(*program);
        if (!outside.empty()) return {"ok", outside};
        if (auto finding = trainium::check_legality(*program, machine_)) return of(*finding);
        const trainium::PredictedProfile profile = trainium::predict(*program, machine_);
        if (!(profile.compiled.latency.value_or(0) > 0)) return {"ok", "latency is not above 0"};
        return execute(*program, arguments);
    }

    Verdict execute(const nki::Program& program, const std::vector<nki::Argument>& arguments) {
        std::int64_t work = 0;
        for (const nki::Operation& operation : program.operations)
            work += operation.dst.count() + (operation.sources > 0 ? operation.src[0].count() : 0);
        if (work > 60'000'000) return {"ok, not run", ""};
        std::vector<std::vector<std::byte>> data;
        for (const nki::Argument& argument : arguments) {
            const auto* tensor = std::get_if<nki::TensorArgument>(&argument);
            if (tensor == nullptr) continue;
            std::int64_t bytes = nki::size_of(tensor->dtype);
            for (const std::int64_t n : tensor->shape) bytes *= n;
            // Never larger than the tensor: the sanitizer sees the first byte past its end.
            data.emplace_back(static_cast<std::size_t>(bytes));
            for (std::size_t k = 0; k < data.back().size(); ++k)
                data.back()[k] = static_cast<std::byte>(k % 4 == 3 ? 0x3f : k * 37);
        }
        std::vector<trainium::InputArray> inputs;
        for (const auto& array : data)
            inputs.push_back({array.data(), static_cast<std::int64_t>(array.size())});
        trainium::ExecutionLimits limits;
        limits.memory_bytes = kMemory;
        limits.program_order = true;
        const auto outputs = trainium::execute(program, inputs, limits);
        if (!outputs) return of(outputs.error());
        if (outputs->empty()) return {"ok", "no outputs"};
        // Dependencies are found by us, not declared by a kernel: no mutant may have a race.
        const auto hazard = trainium::find_hazard(
            program, trainium::compile_kernel(program, machine_), inputs, limits, *outputs);
        if (hazard && hazard->code == "hazard")
            return {"hazard", "completion order gives other values: " + hazard->message};
        if (hazard) return of(*hazard);
        return {"ok", ""};
    }

    trainium::Machine machine_;
    std::int64_t last_ = 0;
};

int main_of(int argc, char** argv) {
    FuzzOptions options;
    int status = 0;
    if (!parse_options(argc, argv, "Fuzzes the NKI front end and the Trainium model with mutants.",
                       options, status))
        return status;
    const std::vector<Seed> seeds = load_seeds(ACCELOPT_SOURCE_DIR);
    Judge judge;
    std::size_t chosen = 0;
    const auto make = [&](std::int64_t index) {
        RandomStream random =
            RandomStream::keyed(options.seed, "fuzz_kernels/" + std::to_string(index));
        chosen = random.below(seeds.size());
        return mutate(seeds[chosen], seeds, random);
    };
    const auto run = [&](const std::string& source) {
        return judge.run(source, seeds[chosen].arguments);
    };
    return run_forked(options, ".py", make, run);
}

}  // namespace
}  // namespace accelopt::fuzz

int main(int argc, char** argv) {
    try {
        return accelopt::fuzz::main_of(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fuzz_kernels: %s\n", error.what());
        return 70;
    }
}
