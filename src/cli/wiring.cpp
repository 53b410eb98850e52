#include "cli/wiring.h"

#include "llm/openai.h"
#include "rewrite/builtin.h"

namespace accelopt::cli {

llm::ProviderRegistry make_providers() {
    llm::ProviderRegistry providers;
    providers["builtin"] = rewrite::make_builtin_provider();
    providers["openai"] = llm::make_openai_provider();
    return providers;
}

cluster::WorkerHost make_worker_host() { return {make_providers, ""}; }

}  // namespace accelopt::cli
