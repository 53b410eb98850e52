// Whatever a model replies, extraction ends in a kernel or a reason.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agents/agents.h"
#include "agents/edits.h"
#include "agents/fence.h"

using namespace accelopt::agents;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::string kParent = "@nki.jit\ndef kernel(x):\n    a = x\n    return a\n";
    const std::string reply(reinterpret_cast<const char*>(data), size);
    const auto kernel = extract_kernel(reply, kParent);
    if (kernel.ok() && kernel->source.empty()) std::abort();
    if (!kernel.ok() && kernel.error().empty()) std::abort();
    for (const auto& fence : find_fences(reply)) {
        // A fence that is put between fences again is found again, whole.
        if (!fence.closed || fence.text.find('\r') != std::string::npos) continue;
        const auto again = find_fences(fenced(fence.text, "text"));
        if (again.size() != 1 || !again[0].closed || again[0].text != fence.text) std::abort();
    }
    accelopt::protocol::Experience experience;
    parse_summary(reply, experience);
    return 0;
}
