#include "trainium/execute.h"

#include <new>

#include "trainium/execution_plan.h"
#include "trainium/executor.h"
#include "trainium/indirect.h"
#include "trainium/matmul.h"
#include "trainium/tile_memory.h"

namespace accelopt::trainium {

Result<std::vector<OutputArray>, nki::Finding> execute(const nki::Program& program,
                                                       std::span<const InputArray> inputs,
                                                       const ExecutionLimits& limits) {
    const execution::SingleThread single_thread;
    return execution::with_findings(limits, [&] {
        std::vector<std::int32_t> order;
        if (!limits.program_order) order = execution::plan_execution(program);
        const execution::TileTable tiles(program, order);
        execution::TileMemory memory(program, tiles, inputs, limits.memory_bytes);
        execution::Executor executor(program, memory);
        const auto count =
            static_cast<std::int64_t>(order.empty() ? program.operations.size() : order.size());
        for (std::int64_t i = 0; i < count; ++i) {
            executor.run(program.operations[order.empty() ? i : order[i]]);
            memory.release(i);
        }
        return executor.take_outputs();
    });
}

}  // namespace accelopt::trainium
