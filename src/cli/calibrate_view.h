#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/calibration_input.h"
#include "trainium/refit.h"

namespace accelopt::cli {

/// A kernel that could not be compared, and why.
struct SkippedKernel {
    std::string name;
    std::string reason;
};

/// A finished refit: the search's result and what it means for the description file.
struct RefitReport {
    trainium::RefitResult result;
    std::vector<eval::ConstantChange> changes;    ///< what moved
    std::vector<eval::DescribedConstant> before;  ///< the same constants as they were
    std::vector<trainium::CaseError> errors;      ///< in-sample, after the refit
};

/// Everything that `accelopt calibrate` found; what was not asked for is empty.
struct CalibrationReport {
    std::string measured;  ///< the table's path
    std::string machine;   ///< "trn1@hash"
    std::vector<trainium::CaseError> errors;
    std::vector<SkippedKernel> skipped;
    std::vector<trainium::Ablation> ablations;
    std::optional<RefitReport> refit;
    std::vector<trainium::CaseError> left_out;  ///< leave-one-out, each from the other kernels
};

/// Tables for a terminal; percent and points are of the measured latency.
std::string calibration_text(const CalibrationReport& report);
/// One JSON object, fractions as fractions; an absent figure is null.
std::string calibration_json(const CalibrationReport& report);
/// Predictions as a table that `calibrate --measured` reads: name, latency_ms, counters, active
/// times.
std::string prediction_csv(const std::vector<trainium::CaseError>& errors);

}  // namespace accelopt::cli
