#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainium/calibration.h"
#include "trainium/machine_fields.h"

/// Refitting the constants of a machine to measured kernels. Only constants that the caller names
/// are touched: those whose source in the description is a fit, never a documented one.
namespace accelopt::trainium {

/// A constant that may move, between bounds, pulled towards its present value.
struct FitConstant {
    const MachineField* field = nullptr;
    double start = 0;
    double lower = 0;
    double upper = 0;
};

/// The constants named by `keys` that can move on a logarithmic scale: within a factor of four of
/// their present value, whole numbers from 1, sizes in SBUF at most the whole of it. A constant
/// that is zero cannot, and is left out. Throws Error(kInternal) for an unknown key.
std::vector<FitConstant> fit_constants(const Machine& machine,
                                       const std::vector<std::string>& keys);

/// How the search is done. The objective of a kernel is a pseudo-Huber loss of the logarithm of
/// predicted over measured latency, plus a share of its engine-active error; kernels count alike.
struct RefitOptions {
    int max_evaluations = 400;   ///< predictions of all kernels
    double prior_weight = 0.01;  ///< objective of one kernel for a constant moved by `prior_scale`
    double prior_scale = 0.693;  ///< natural logarithm of a factor of two
    double active_weight = 0.5;  ///< of the engine-active error (a fraction)
    double first_step = 0.25;    ///< in natural logarithms
    double smallest_step = 0.004;  ///< where the search ends
};

/// Where one constant went.
struct FitChange {
    std::string key;
    double before = 0;
    double after = 0;
    bool identified = true;  ///< false: no measured kernel reacts to it, so it stayed
};

struct RefitResult {
    Machine machine;
    std::vector<FitChange> changes;  ///< one per constant, also of those that stayed
    double objective_before = 0;
    double objective_after = 0;
    int evaluations = 0;
    bool converged = false;  ///< false: stopped by max_evaluations
};

/// Fits by coordinate search with pattern moves (Hooke and Jeeves 1961) on logarithms, without
/// random numbers: the same input gives the same result. Predictions are remembered, so that
/// leaving one kernel out costs little more than the points that are new.
class Refitter {
  public:
    /// `set` must outlive this object.
    Refitter(const CalibrationSet& set, const Machine& start, std::vector<FitConstant> constants,
             RefitOptions options = {});

    /// Fits to the kernels `which` (indices into the set).
    RefitResult fit(const std::vector<std::size_t>& which, const Progress& progress);
    /// Fits to all kernels.
    RefitResult fit(const Progress& progress);
    /// Fits as often as there are kernels, each time without one, and returns the errors of the
    /// kernels left out.
    std::vector<CaseError> leave_one_out(const Progress& progress);

  private:
    struct Point;
    class Search;

    Machine machine_at(const std::vector<double>& values) const;
    /// Objective of each kernel in `which` at a point; only what is not remembered is predicted.
    const std::vector<std::optional<double>>& losses(const std::vector<double>& values,
                                                     const std::vector<std::size_t>& which);

    const CalibrationSet& set_;
    Machine start_;
    std::vector<FitConstant> constants_;
    RefitOptions options_;
    std::map<std::vector<double>, std::vector<std::optional<double>>> remembered_;
};

}  // namespace accelopt::trainium
