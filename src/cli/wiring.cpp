#include "cli/wiring.h"

#include "cluster/call_journal.h"
#include "llm/registry.h"
#include "rewrite/builtin.h"

namespace accelopt::cli {

llm::ProviderRegistry make_providers() {
    llm::ProviderRegistry providers = llm::make_providers(cluster::open_recording);
    providers["builtin"] = rewrite::make_builtin_provider();
    return providers;
}

cluster::WorkerHost make_worker_host() { return {make_providers, ""}; }

}  // namespace accelopt::cli
