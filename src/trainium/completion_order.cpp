#include "trainium/completion_order.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.h"
#include "trainium/hazard.h"
#include "trainium/indirect.h"
#include "trainium/matmul.h"
#include "trainium/ordered_run.h"
#include "trainium/passes.h"

namespace accelopt::trainium {

CompiledKernel compile_kernel(const nki::Program& program, const Machine& full_machine,
                              Mechanisms mechanisms) {
    const Machine machine = with_mechanisms(full_machine, mechanisms);
    CompiledKernel kernel;
    kernel.stream = lower(program, machine);
    compile(kernel.stream, machine, mechanisms);
    kernel.schedule = make_schedule(kernel.stream, machine);
    simulate(kernel.stream, kernel.schedule, machine, &kernel.order);
    return kernel;
}

Result<std::vector<OutputArray>, nki::Finding> execute_completion_order(
    const nki::Program& program, const CompiledKernel& kernel, std::span<const InputArray> inputs,
    const ExecutionLimits& limits) {
    const execution::SingleThread single_thread;
    const execution::TileTable tiles(program);
    return execution::with_findings(limits, [&] {
        execution::OrderedRun run(program, kernel, tiles, inputs, limits);
        for (const OrderStep& step : kernel.order) run.step(step);
        return run.take_outputs();
    });
}

std::optional<nki::Finding> find_hazard(const nki::Program& program, const CompiledKernel& kernel,
                                        std::span<const InputArray> inputs,
                                        const ExecutionLimits& limits,
                                        std::span<const OutputArray> in_program_order) {
    // The outputs to compare with are there at the same time.
    ExecutionLimits left = limits;
    for (const OutputArray& output : in_program_order) {
        left.memory_bytes -= static_cast<std::int64_t>(output.bytes.size());
    }
    auto completed = execute_completion_order(program, kernel, inputs, left);
    if (!completed) return completed.error();
    require(completed->size() == in_program_order.size(),
            "the two executions have other numbers of outputs");
    for (std::size_t o = 0; o < completed->size(); ++o) {
        const OutputBytes& expected = in_program_order[o].bytes;
        const OutputBytes& found = (*completed)[o].bytes;
        require(expected.size() == found.size(), "the two executions have outputs of other sizes");
        if (std::memcmp(expected.data(), found.data(), expected.size()) == 0) continue;
        const auto [at, other] = std::mismatch(expected.begin(), expected.end(), found.begin());
        execution::Difference difference;
        difference.output = o;
        difference.byte = at - expected.begin();
        const auto size = static_cast<std::size_t>(nki::size_of(in_program_order[o].dtype));
        const std::size_t first = static_cast<std::size_t>(difference.byte) / size * size;
        std::memcpy(difference.expected.data(), expected.data() + first, size);
        std::memcpy(difference.found.data(), found.data() + first, size);
        completed->clear();
        return execution::explain_hazard(program, kernel, inputs, limits, difference);
    }
    return std::nullopt;
}

}  // namespace accelopt::trainium
