#include "trainium/refit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/error.h"

namespace accelopt::trainium {
namespace {

constexpr double kRange = 4.0;         ///< a constant stays within this factor of its start
constexpr double kHuberScale = 0.02;   ///< log error at which the loss turns from square to linear
constexpr double kStepGrowth = 1.5;    ///< of a step that helped
constexpr double kLargestStep = 0.7;   ///< about a factor of two
constexpr double kImprovement = 1e-9;  ///< an objective lower by less is not lower

double loss_of(const CaseError& error, double active_weight) {
    const double predicted = std::max(error.predicted_ms(Predictor::kModel), 1e-12);
    const double e = std::log(predicted / error.measured_ms());
    const double huber = std::sqrt(e * e + kHuberScale * kHuberScale) - kHuberScale;
    return huber + active_weight * error.active_error().value_or(0);
}

/// Six significant digits: what is printed is what was evaluated.
double rounded(const FitConstant& constant, double value) {
    if (is_integer(*constant.field)) return std::round(value);
    if (value == 0) return value;
    const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
    return std::round(value * scale) / scale;
}

}  // namespace

std::vector<FitConstant> fit_constants(const Machine& machine,
                                       const std::vector<std::string>& keys) {
    std::vector<FitConstant> constants;
    for (const std::string& key : keys) {
        const MachineField* field = find_field(key);
        require(field != nullptr, "refit: no constant of this name");
        const double value = get_field(machine, *field);
        if (value <= 0) continue;
        FitConstant constant{field, value, value / kRange, value * kRange};
        if (is_integer(*field)) constant.lower = std::max(1.0, std::round(constant.lower));
        const auto sbuf = static_cast<double>(machine.sbuf_partition_bytes);
        if (key == "hoist_partition_bytes" || key == "streamed_partition_bytes" ||
            key == "resident_partition_bytes")
            constant.upper = std::max(value, std::min(constant.upper, sbuf));
        constants.push_back(constant);
    }
    return constants;
}

/// One search: where it is, how far it steps.
class Refitter::Search {
  public:
    Search(Refitter& owner, const std::vector<std::size_t>& which, const Progress& progress)
        : owner_(owner), which_(which), progress_(progress) {
        for (const FitConstant& constant : constants()) best_.push_back(constant.start);
        steps_.assign(best_.size(), owner_.options_.first_step);
        identified_.assign(best_.size(), false);
    }

    RefitResult run() {
        RefitResult result;
        best_losses_ = losses_at(best_);
        objective_ = objective(best_, best_losses_);
        result.objective_before = objective_;
        while (!finished() && evaluations_ < owner_.options_.max_evaluations) {
            const std::vector<double> before = best_;
            const double objective_before = objective_;
            sweep();
            if (objective_ < objective_before - kImprovement) pattern_move(before);
            first_sweep_ = false;
            report();
        }
        result.machine = owner_.machine_at(best_);
        result.objective_after = objective_;
        result.evaluations = evaluations_;
        result.converged = finished();
        for (std::size_t c = 0; c < best_.size(); ++c) {
            result.changes.push_back({std::string(constants()[c].field->key), constants()[c].start,
                                      best_[c], identified_[c]});
        }
        return result;
    }

  private:
    const std::vector<FitConstant>& constants() const { return owner_.constants_; }

    std::vector<double> losses_at(const std::vector<double>& values) {
        ++evaluations_;
        const auto& remembered = owner_.losses(values, which_);
        std::vector<double> losses;
        for (const std::size_t k : which_) losses.push_back(*remembered[k]);
        return losses;
    }

    double objective(const std::vector<double>& values, const std::vector<double>& losses) const {
        double pull = 0;
        for (std::size_t c = 0; c < values.size(); ++c) {
            const double moved =
                std::log(values[c] / constants()[c].start) / owner_.options_.prior_scale;
            pull += moved * moved;
        }
        const auto kernels = static_cast<double>(std::max<std::size_t>(1, losses.size()));
        return mean_of(losses) + owner_.options_.prior_weight * pull / kernels;
    }

    bool finished() const {
        return std::all_of(steps_.begin(), steps_.end(),
                           [&](double step) { return step < owner_.options_.smallest_step; });
    }

    /// The constant `c` moved by exp(step), within its bounds; a whole number by 1 at least.
    double moved(std::size_t c, double value, double step) const {
        const FitConstant& constant = constants()[c];
        double next = rounded(constant, value * std::exp(step));
        if (is_integer(*constant.field) && next == value) next += step > 0 ? 1 : -1;
        return std::clamp(next, constant.lower, constant.upper);
    }

    bool try_point(const std::vector<double>& values) {
        const std::vector<double> losses = losses_at(values);
        reacts_ = reacts_ || losses != best_losses_;
        const double reached = objective(values, losses);
        if (reached >= objective_ - kImprovement) return false;
        objective_ = reached;
        best_ = values;
        best_losses_ = losses;
        return true;
    }

    /// Tries a step of each constant to either side. In the first sweep a constant that no kernel
    /// reacts to is found and not tried again.
    void sweep() {
        for (std::size_t c = 0; c < best_.size(); ++c) {
            if (!first_sweep_ && steps_[c] < owner_.options_.smallest_step) continue;
            if (evaluations_ >= owner_.options_.max_evaluations) return;
            const double from = best_[c];
            reacts_ = false;
            bool improved = false;
            bool moves = false;
            for (const double direction : {1.0, -1.0}) {
                std::vector<double> values = best_;
                values[c] = moved(c, from, direction * steps_[c]);
                if (values[c] == from) continue;
                moves = true;
                improved = try_point(values);
                if (improved) break;
            }
            if (first_sweep_) identified_[c] = reacts_;
            if (!moves || !(reacts_ || !first_sweep_)) {
                steps_[c] = 0;
            } else if (improved) {
                steps_[c] = std::min(kLargestStep, steps_[c] * kStepGrowth);
            } else {
                steps_[c] /= 2;
                // A whole number that cannot improve by one step of 1 stays.
                if (is_integer(*constants()[c].field) && from * std::expm1(steps_[c]) < 0.25)
                    steps_[c] = 0;
            }
        }
    }

    /// Goes on in the direction in which the sweep moved all constants together.
    void pattern_move(const std::vector<double>& before) {
        for (int repeat = 0; repeat < 3; ++repeat) {
            std::vector<double> values = best_;
            for (std::size_t c = 0; c < values.size(); ++c) {
                const FitConstant& constant = constants()[c];
                values[c] = std::clamp(rounded(constant, best_[c] * best_[c] / before[c]),
                                       constant.lower, constant.upper);
            }
            if (values == best_ || !try_point(values)) return;
        }
    }

    void report() const {
        if (!progress_) return;
        char text[96];
        std::snprintf(text, sizeof text, "%d evaluations, objective %.5f", evaluations_,
                      objective_);
        progress_(text);
    }

    Refitter& owner_;
    const std::vector<std::size_t>& which_;
    const Progress& progress_;
    std::vector<double> best_;
    std::vector<double> steps_;
    std::vector<bool> identified_;
    std::vector<double> best_losses_;
    double objective_ = 0;
    int evaluations_ = 0;
    bool first_sweep_ = true;
    bool reacts_ = false;
};

Refitter::Refitter(const CalibrationSet& set, const Machine& start,
                   std::vector<FitConstant> constants, RefitOptions options)
    : set_(set), start_(start), constants_(std::move(constants)), options_(options) {}

Machine Refitter::machine_at(const std::vector<double>& values) const {
    Machine machine = start_;
    for (std::size_t c = 0; c < values.size(); ++c)
        set_field(machine, *constants_[c].field, values[c]);
    return machine;
}

const std::vector<std::optional<double>>& Refitter::losses(const std::vector<double>& values,
                                                           const std::vector<std::size_t>& which) {
    auto& remembered = remembered_[values];
    remembered.resize(set_.size());
    std::vector<std::size_t> missing;
    for (const std::size_t k : which)
        if (!remembered[k]) missing.push_back(k);
    const std::vector<CaseError> errors = set_.errors(machine_at(values), {}, missing);
    for (std::size_t i = 0; i < missing.size(); ++i)
        remembered[missing[i]] = loss_of(errors[i], options_.active_weight);
    return remembered;
}

RefitResult Refitter::fit(const std::vector<std::size_t>& which, const Progress& progress) {
    return Search(*this, which, progress).run();
}

RefitResult Refitter::fit(const Progress& progress) {
    std::vector<std::size_t> all(set_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return fit(all, progress);
}

std::vector<CaseError> Refitter::leave_one_out(const Progress& progress) {
    std::vector<CaseError> errors;
    for (std::size_t left_out = 0; left_out < set_.size(); ++left_out) {
        if (progress)
            progress("fit without " + set_.cases()[left_out].name + " (" +
                     std::to_string(left_out + 1) + " of " + std::to_string(set_.size()) + ")");
        std::vector<std::size_t> which;
        for (std::size_t k = 0; k < set_.size(); ++k)
            if (k != left_out) which.push_back(k);
        const RefitResult fitted = fit(which, {});
        const std::size_t one[] = {left_out};
        errors.push_back(set_.errors(fitted.machine, {}, one).front());
    }
    return errors;
}

}  // namespace accelopt::trainium
