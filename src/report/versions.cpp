#include "report/versions.h"

#include <set>

#include "core/error.h"
#include "core/text.h"
#include "store/candidates.h"

namespace accelopt::report {

std::vector<std::string> versions_of(const store::RunData& run) {
    std::set<std::string> versions;
    for (const auto& row : store::candidate_rows(run)) {
        // A kernel that no evaluator has seen was judged by nothing.
        if (row.evaluation == nullptr || row.evaluation->machine.empty()) continue;
        versions.insert("accelopt " + row.evaluation->accelopt_version + ", " +
                        row.evaluation->machine);
    }
    return {versions.begin(), versions.end()};
}

void require_one_version(const std::vector<store::RunData>& runs) {
    std::set<std::string> versions;
    for (const auto& run : runs) {
        for (auto& version : versions_of(run)) versions.insert(std::move(version));
    }
    if (versions.size() <= 1) return;
    throw Error(ErrorSource::kUser, "mixed_versions",
                "the evaluations come from more than one version of the program or of the machine "
                "description, whose figures do not compare; evaluate again, report each alone, or "
                "use --mixed-versions: " +
                    join({versions.begin(), versions.end()}, "; "));
}

}  // namespace accelopt::report
