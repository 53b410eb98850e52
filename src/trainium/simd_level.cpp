#include <hwy/highway.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "trainium/execute.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium {

namespace {

/// Compiled levels that the processor has and limit_simd() has left. Asking Highway also makes it
/// remember the answer without the limit, hence the reset: dispatch then asks again.
std::int64_t usable_levels() {
    const std::int64_t levels = hwy::SupportedTargets() & HWY_TARGETS;
    hwy::GetChosenTarget().DeInit();
    return levels;
}

}  // namespace

std::string simd_target() {
    // Highway numbers better levels lower.
    const std::int64_t usable = usable_levels();
    return hwy::TargetName(usable & -usable);
}

bool limit_simd(std::string_view level) {
    if (level == "auto") return true;
    constexpr std::int64_t kAvx512 = HWY_AVX3 | HWY_AVX3_DL;
    struct Level {
        std::string_view name;
        std::int64_t required;
        std::int64_t disabled;
        dnnl::cpu_isa isa;
    };
    constexpr Level kLevels[] = {
        {"avx512", HWY_AVX3, 0, dnnl::cpu_isa::avx512_core},
        {"avx2", HWY_AVX2, kAvx512, dnnl::cpu_isa::avx2},
        {"sse4", HWY_SSE4, kAvx512 | HWY_AVX2, dnnl::cpu_isa::sse41},
    };
    for (const Level& known : kLevels) {
        if (known.name != level) continue;
        if ((usable_levels() & known.required) == 0 || execution::kernels_in_use()) {
            return false;
        }
        if (dnnl::set_max_cpu_isa(known.isa) != dnnl::status::success) return false;
        hwy::DisableTargets(known.disabled);
        return true;
    }
    return false;
}

}  // namespace accelopt::trainium
