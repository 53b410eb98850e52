#include "trainium/calibration.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "core/error.h"

namespace accelopt::trainium {
namespace {

/// Calls f(i) for i < count on several threads; rethrows the first exception.
template <typename F>
void for_each_index(std::size_t count, int threads, F&& f) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;
    const auto work = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                f(i);
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (!failure) failure = std::current_exception();
            }
        }
    };
    std::vector<std::jthread> workers;
    const auto wanted = std::min<std::size_t>(count, static_cast<std::size_t>(threads));
    for (std::size_t w = 1; w < wanted; ++w) workers.emplace_back(work);
    work();
    workers.clear();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

double CaseError::predicted_ms(Predictor predictor) const {
    switch (predictor) {
        case Predictor::kModel:
            return predicted.latency.value_or(0);
        case Predictor::kStreamRoofline:
            return predicted.stream_roofline_ms.value_or(0);
        case Predictor::kCompiledRoofline: {
            double busiest = 0;
            for (const EngineField& engine : kEngineFields)
                busiest = std::max(busiest, (predicted.*engine.member).value_or(0));
            return busiest * predicted.latency.value_or(0);
        }
    }
    throw Error(ErrorSource::kInternal, "calibration", "an unknown predictor");
}

double CaseError::error(Predictor predictor) const {
    return predicted_ms(predictor) / measured_ms() - 1;
}

std::optional<double> CaseError::active_error() const {
    std::vector<double> differences;
    for (const EngineField& engine : kEngineFields) {
        const auto& was = measured.*engine.member;
        const auto& is = predicted.*engine.member;
        if (was && is) differences.push_back(std::abs(*is - *was));
    }
    if (differences.empty()) return std::nullopt;
    return mean_of(differences);
}

ErrorSummary summarise(std::span<const CaseError> errors, Predictor predictor) {
    ErrorSummary summary;
    summary.kernels = errors.size();
    std::vector<double> absolute;
    std::vector<double> measured;
    std::vector<double> predicted;
    std::vector<double> active;
    for (const CaseError& error : errors) {
        measured.push_back(error.measured_ms());
        predicted.push_back(error.predicted_ms(predictor));
        absolute.push_back(std::abs(error.error(predictor)));
        if (absolute.back() >= summary.worst) {
            summary.worst = absolute.back();
            summary.worst_kernel = error.name;
        }
        if (const auto points = error.active_error()) active.push_back(*points);
    }
    summary.mean = mean_of(absolute);
    summary.median = median_of(absolute);
    summary.spearman = spearman(measured, predicted);
    summary.pairs = pair_ordering(measured, predicted);
    if (!active.empty() && predictor == Predictor::kModel) summary.active_error = mean_of(active);
    return summary;
}

std::vector<CounterSummary> summarise_counters(std::span<const CaseError> errors) {
    std::vector<CounterSummary> summaries;
    for (const CounterField& counter : kCounterFields) {
        CounterSummary summary;
        summary.name = counter.name;
        for (const CaseError& error : errors) {
            const auto& was = error.measured.*counter.member;
            const auto& is = error.predicted.*counter.member;
            if (!was || !is) continue;
            const auto difference = static_cast<double>(std::abs(*is - *was));
            const auto size = static_cast<double>(std::abs(*was));
            ++summary.kernels;
            if (difference == 0) ++summary.exact;
            if (difference <= 0.05 * size) ++summary.within_5_percent;
            if (difference <= 0.20 * size) ++summary.within_20_percent;
        }
        if (summary.kernels > 0) summaries.push_back(summary);
    }
    return summaries;
}

CalibrationSet::CalibrationSet(std::vector<CalibrationCase> cases, int threads)
    : cases_(std::move(cases)), threads_(std::max(1, threads)) {
    for (const CalibrationCase& one : cases_)
        require(one.measured.latency.value_or(0) > 0, "a calibration case needs its latency");
}

std::vector<CaseError> CalibrationSet::errors(const Machine& machine, Mechanisms mechanisms,
                                              std::span<const std::size_t> which) const {
    std::vector<CaseError> errors(which.size());
    for_each_index(which.size(), threads_, [&](std::size_t i) {
        const CalibrationCase& one = cases_.at(which[i]);
        errors[i] = {one.name, one.measured,
                     predict_stream(one.stream, machine, mechanisms).compiled};
    });
    return errors;
}

std::vector<CaseError> CalibrationSet::errors(const Machine& machine, Mechanisms mechanisms) const {
    std::vector<std::size_t> all(cases_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return errors(machine, mechanisms, all);
}

std::vector<Ablation> CalibrationSet::ablate(const Machine& machine,
                                             const Progress& progress) const {
    std::vector<Ablation> ablations;
    for (const MechanismInfo& info : kMechanisms) {
        if (progress) progress("without " + std::string(info.name));
        Ablation ablation{&info, errors(machine, Mechanisms().without(info.mechanism)), {}};
        ablation.summary = summarise(ablation.errors);
        ablations.push_back(std::move(ablation));
    }
    return ablations;
}

}  // namespace accelopt::trainium
