#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/profile.h"
#include "trainium/error_statistics.h"
#include "trainium/machine.h"
#include "trainium/mechanism.h"
#include "trainium/stream.h"
#include "trainium/timing.h"

/// The model against measurements: errors of every kernel, what each mechanism is worth. Kernels
/// are lowered once; every variant of the machine starts from that stream.
namespace accelopt::trainium {

/// A measured kernel. `measured.latency` is there and positive (ms).
struct CalibrationCase {
    std::string name;
    Stream stream;  ///< as lowered, before any compiler pass
    protocol::Profile measured;
};

/// One counter of a profile, by neuron-profile's name.
struct CounterField {
    std::string_view name;
    std::optional<std::int64_t> protocol::Profile::*member;
};
inline constexpr std::array kCounterFields{
    CounterField{"hbm_read_bytes", &protocol::Profile::hbm_read_bytes},
    CounterField{"hbm_write_bytes", &protocol::Profile::hbm_write_bytes},
    CounterField{"psum_read_bytes", &protocol::Profile::psum_read_bytes},
    CounterField{"psum_write_bytes", &protocol::Profile::psum_write_bytes},
    CounterField{"sbuf_read_bytes", &protocol::Profile::sbuf_read_bytes},
    CounterField{"sbuf_write_bytes", &protocol::Profile::sbuf_write_bytes},
    CounterField{"spill_save_bytes", &protocol::Profile::spill_save_bytes},
    CounterField{"spill_reload_bytes", &protocol::Profile::spill_reload_bytes},
    CounterField{"hardware_flops", &protocol::Profile::hardware_flops},
    CounterField{"transpose_flops", &protocol::Profile::transpose_flops},
};

/// One engine's active time of a profile, as a fraction.
struct EngineField {
    std::string_view name;
    std::optional<double> protocol::Profile::*member;
};
inline constexpr std::array kEngineFields{
    EngineField{"PE", &protocol::Profile::tensor_engine_active_time_percent},
    EngineField{"ACT", &protocol::Profile::scalar_engine_active_time_percent},
    EngineField{"DVE", &protocol::Profile::vector_engine_active_time_percent},
    EngineField{"Pool", &protocol::Profile::gpsimd_engine_active_time_percent},
    EngineField{"DMA", &protocol::Profile::dma_active_time_percent},
};

/// What stands beside the measured latency.
enum class Predictor {
    kModel,             ///< the event simulation of the compiled stream
    kStreamRoofline,    ///< busiest engine of the stream as written
    kCompiledRoofline,  ///< busiest engine of the compiled stream
};

/// A kernel, measured and predicted.
struct CaseError {
    std::string name;
    protocol::Profile measured;
    protocol::Profile predicted;

    double measured_ms() const { return *measured.latency; }
    double predicted_ms(Predictor predictor) const;
    /// Relative error of the latency, negative when the prediction is too fast.
    double error(Predictor predictor) const;
    /// Mean absolute difference of the measured engines' active time, as a fraction of the
    /// latency; nullopt when none is measured.
    std::optional<double> active_error() const;
};

/// The errors of many kernels in a few figures. Errors are absolute relative errors.
struct ErrorSummary {
    std::size_t kernels = 0;
    double mean = 0;
    double median = 0;
    double worst = 0;
    std::string worst_kernel;
    std::optional<double> spearman;
    PairOrdering pairs;
    std::optional<double> active_error;  ///< mean over kernels and engines, as a fraction
};
ErrorSummary summarise(std::span<const CaseError> errors, Predictor predictor = Predictor::kModel);

/// How well one counter is predicted, over the kernels that measure it.
struct CounterSummary {
    std::string_view name;
    std::size_t kernels = 0;
    std::size_t exact = 0;
    std::size_t within_5_percent = 0;
    std::size_t within_20_percent = 0;
};
std::vector<CounterSummary> summarise_counters(std::span<const CaseError> errors);

/// What a prediction without one mechanism makes of all kernels.
struct Ablation {
    const MechanismInfo* mechanism = nullptr;
    std::vector<CaseError> errors;
    ErrorSummary summary;
};

/// Called before each step of long work with what is done next.
using Progress = std::function<void(const std::string&)>;

/// The measured kernels. Predictions run on several threads and are the same on any number.
class CalibrationSet {
  public:
    /// Throws Error(kInternal) for a case without a positive latency. `threads` of at least 1.
    CalibrationSet(std::vector<CalibrationCase> cases, int threads);

    const std::vector<CalibrationCase>& cases() const { return cases_; }
    std::size_t size() const { return cases_.size(); }

    /// Predicts the cases named by `which` (indices), in that order.
    std::vector<CaseError> errors(const Machine& machine, Mechanisms mechanisms,
                                  std::span<const std::size_t> which) const;
    /// Predicts all cases.
    std::vector<CaseError> errors(const Machine& machine, Mechanisms mechanisms = {}) const;
    /// All cases without each mechanism in turn, in the order of kMechanisms.
    std::vector<Ablation> ablate(const Machine& machine, const Progress& progress) const;

  private:
    std::vector<CalibrationCase> cases_;
    int threads_;
};

}  // namespace accelopt::trainium
