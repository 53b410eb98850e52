#pragma once

// Private to report: the parts of the profile view beyond its figures.

#include <string>

#include "protocol/profile.h"
#include "report/profile_view.h"

namespace accelopt::report {

/// Where the time goes by source line, with the text of the line.
std::string line_table(const protocol::Profile& profile, const ProfileViewOptions& options);
/// The critical path by line and cause.
std::string critical_path_table(const protocol::Profile& profile,
                                const ProfileViewOptions& options);
/// HBM traffic per tensor with its reload factor.
std::string tensor_table(const protocol::Profile& profile, const ProfileViewOptions& options);
/// Occupancy of SBUF and PSUM as sparklines with peak and mean.
std::string occupancy_lines(const protocol::Profile& profile, const ProfileViewOptions& options);
/// Position under the roofs of the machine, as lines of figures; "" where it is not known.
std::string roofline_lines(const protocol::Profile& profile);

}  // namespace accelopt::report
