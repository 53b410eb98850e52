#include "trainium/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "trainium/analysis_critical_path.h"
#include "trainium/analysis_occupancy.h"
#include "trainium/analysis_places.h"
#include "trainium/passes.h"
#include "trainium/timing_simulate.h"

namespace accelopt::trainium {
namespace {

constexpr int kPathTrack = 1;
constexpr int kFirstEngineTrack = 2;
constexpr int kFirstQueueTrack = 10;
/// Points of a counter: a screen has no more columns.
constexpr std::size_t kCounterPoints = 4000;

/// A block on a track.
struct Block {
    double start_ns = 0;
    double end_ns = 0;
    std::int32_t instruction = -1;  ///< the first of a merged block
    std::int32_t merged = 1;
    Wait wait = Wait::kNothing;
};
/// The blocks of one track in the order of time.
struct Track {
    int id = 0;
    std::string name;
    std::vector<Block> blocks;
};

std::string wait_name(Wait wait) {
    switch (wait) {
        case Wait::kNothing:
            return "nothing";
        case Wait::kOperand:
            return "an operand";
        case Wait::kEngine:
            return "its engine";
        case Wait::kQueue:
            return "its queues";
        case Wait::kMemory:
            return "memory on chip";
        case Wait::kPort:
            return "a port to the memory";
        case Wait::kTransfers:
            return "transfers in flight";
        case Wait::kWindow:
            return "its turn in program order";
    }
    return "";
}

/// A JSON string, in ASCII.
std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

class TraceWriter {
  public:
    TraceWriter(std::ostream& out, const SimulatedKernel& kernel, const Machine& machine,
                const TraceOptions& options)
        : out_(out),
          kernel_(kernel),
          machine_(machine),
          options_(options),
          places_(kernel.program, kernel.stream) {
        for (std::int32_t p = 0; p < places_.size(); ++p) {
            const Place& place = places_[p];
            names_.push_back(quoted(place.line > 0
                                        ? fmt::format("{}:{}", place.operation, place.line)
                                        : place.operation));
        }
    }

    TraceSummary run() {
        summary_.latency_ns = kernel_.timeline.latency_ns;
        summary_.from_ns = std::max(0.0, options_.from_ns);
        summary_.to_ns = std::min(options_.to_ns, summary_.latency_ns);
        collect_engines();
        collect_queues();
        collect_path();
        merge_neighbours();
        cut_off();
        out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
        write_names();
        for (const Track& track : tracks_) {
            for (const Block& block : track.blocks) write(track, block);
        }
        write_counter(false);
        write_counter(true);
        out_ << fmt::format(
            "\n],\"otherData\":{{\"latency_ns\":{:.1f},\"from_ns\":{:.1f},\"to_ns\":{:.1f},"
            "\"merged_blocks\":{},\"merge_gap_ns\":{:.1f}}}}}\n",
            summary_.latency_ns, summary_.from_ns, summary_.to_ns, summary_.merged,
            summary_.merge_gap_ns);
        return summary_;
    }

  private:
    bool shown(double start_ns, double end_ns) const {
        return end_ns > summary_.from_ns && start_ns < summary_.to_ns;
    }

    void add(Track& track, double start_ns, double end_ns, std::int32_t instruction, Wait wait) {
        if (shown(start_ns, end_ns)) {
            track.blocks.push_back({start_ns, end_ns, instruction, 1, wait});
        }
    }

    void collect_engines() {
        const auto first = tracks_.size();
        for (int u = 0; u < static_cast<int>(Unit::kDma); ++u) {
            tracks_.push_back(
                {kFirstEngineTrack + u, std::string(unit_name(static_cast<Unit>(u))), {}});
        }
        for (const std::int32_t k : kernel_.timeline.issue_order) {
            const InstructionSpan& span = kernel_.timeline.spans[k];
            if (span.unit == Unit::kDma) continue;
            add(tracks_[first + static_cast<std::size_t>(span.unit)], span.start_ns, span.free_ns(),
                k, span.wait);
        }
    }

    void collect_queues() {
        const auto first = tracks_.size();
        for (int q = 0; q < machine_.dma_queues; ++q) {
            tracks_.push_back({kFirstQueueTrack + q, fmt::format("DMA queue {:02}", q), {}});
        }
        for (const QueueSpan& queue : kernel_.timeline.queues) {
            add(tracks_[first + static_cast<std::size_t>(queue.queue)], queue.start_ns,
                queue.start_ns + static_cast<double>(queue.busy_ns), queue.instruction,
                kernel_.timeline.spans[queue.instruction].wait);
        }
    }

    void collect_path() {
        Track track{kPathTrack, "critical path", {}};
        double start_ns = kernel_.timeline.startup_ns;
        for (const PathStep& step : critical_path(kernel_.timeline)) {
            const InstructionSpan& span = kernel_.timeline.spans[step.instruction];
            if (step.ns > 0) {
                add(track, start_ns, start_ns + step.ns, step.instruction, span.wait);
            }
            start_ns += step.ns;
        }
        tracks_.push_back(std::move(track));
    }

    std::int64_t blocks() const {
        std::int64_t sum = 0;
        for (const Track& track : tracks_) sum += static_cast<std::int64_t>(track.blocks.size());
        return sum;
    }

    /// Draws neighbours of one place as one block, hiding longer and longer gaps until all fits.
    void merge_neighbours() {
        std::int64_t left = blocks();
        for (double gap_ns = 1; left > options_.max_events && gap_ns <= 1e5; gap_ns *= 10) {
            summary_.merge_gap_ns = gap_ns;
            for (Track& track : tracks_) merge(track, gap_ns);
            summary_.merged += left - blocks();
            left = blocks();
        }
    }

    void merge(Track& track, double gap_ns) {
        std::size_t kept = 0;
        for (const Block& block : track.blocks) {
            if (kept > 0) {
                Block& last = track.blocks[kept - 1];
                if (places_.of(last.instruction) == places_.of(block.instruction) &&
                    block.start_ns - last.end_ns <= gap_ns) {
                    last.end_ns = std::max(last.end_ns, block.end_ns);
                    last.merged += block.merged;
                    continue;
                }
            }
            track.blocks[kept++] = block;
        }
        track.blocks.resize(kept);
    }

    /// Drops what begins last.
    void cut_off() {
        const std::int64_t too_many = blocks() - options_.max_events;
        if (too_many <= 0) return;
        std::vector<double> starts;
        for (const Track& track : tracks_) {
            for (const Block& block : track.blocks) starts.push_back(block.start_ns);
        }
        const auto last = starts.begin() + static_cast<std::ptrdiff_t>(options_.max_events);
        std::nth_element(starts.begin(), last, starts.end());
        summary_.to_ns = *last;
        for (Track& track : tracks_) {
            std::erase_if(track.blocks,
                          [&](const Block& block) { return block.start_ns >= summary_.to_ns; });
        }
    }

    void begin_event() {
        if (summary_.events++ > 0) out_ << ",\n";
    }

    void write_names() {
        const auto meta = [&](const char* what, int track, const std::string& arguments) {
            begin_event();
            out_ << fmt::format(
                "{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"{}\",\"args\":{{{}}}}}", track,
                what, arguments);
        };
        meta("process_name", 0, "\"name\":" + quoted(options_.kernel));
        for (const Track& track : tracks_) {
            meta("thread_name", track.id, "\"name\":" + quoted(track.name));
            meta("thread_sort_index", track.id, fmt::format("\"sort_index\":{}", track.id));
        }
    }

    void write(const Track& track, const Block& block) {
        begin_event();
        const Instruction& instruction = kernel_.stream.instructions[block.instruction];
        std::string arguments =
            fmt::format("\"line\":{}", places_[places_.of(block.instruction)].line);
        if (block.merged > 1) {
            arguments += fmt::format(",\"instructions\":{}", block.merged);
        } else {
            arguments += fmt::format(",\"waited for\":\"{}\"", wait_name(block.wait));
            if (is_dma(instruction.op)) {
                arguments += fmt::format(",\"bytes\":{}", instruction.bytes);
            }
        }
        out_ << fmt::format(
            "{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":{},"
            "\"args\":{{{}}}}}",
            track.id, block.start_ns / 1e3, std::max(0.0, block.end_ns - block.start_ns) / 1e3,
            names_[places_.of(block.instruction)], arguments);
    }

    void write_point(const char* name, const char* unit, double at_ns, double value) {
        begin_event();
        out_ << fmt::format(
            "{{\"ph\":\"C\",\"pid\":1,\"ts\":{:.3f},\"name\":\"{}\",\"args\":{{\"{}\":{:.6g}}}}}",
            at_ns / 1e3, name, unit, value);
    }

    /// Keeps the largest value of each of many equal parts, and its edges where they are few.
    void write_counter(bool psum) {
        const char* name = psum ? "PSUM banks" : "SBUF KiB per partition";
        const char* unit = psum ? "banks" : "KiB";
        const double scale = psum ? 1.0 : 1.0 / 1024;
        std::vector<OccupancyStep> steps;
        for (const OccupancyStep& step :
             occupancy_steps(kernel_.schedule, kernel_.timeline, psum)) {
            if (shown(step.at_ns, step.at_ns + 1)) steps.push_back(step);
        }
        if (steps.size() <= kCounterPoints) {
            for (const auto& step : steps) {
                write_point(name, unit, step.at_ns, static_cast<double>(step.used) * scale);
            }
            return;
        }
        const double part_ns =
            (summary_.to_ns - summary_.from_ns) / static_cast<double>(kCounterPoints);
        std::size_t s = 0;
        for (std::size_t part = 0; part < kCounterPoints; ++part) {
            const double start_ns = summary_.from_ns + part_ns * static_cast<double>(part);
            std::int64_t most = -1;
            for (; s < steps.size() && steps[s].at_ns < start_ns + part_ns; ++s) {
                most = std::max(most, steps[s].used);
            }
            if (most >= 0) write_point(name, unit, start_ns, static_cast<double>(most) * scale);
        }
    }

    std::ostream& out_;
    const SimulatedKernel& kernel_;
    const Machine& machine_;
    const TraceOptions& options_;
    Places places_;
    std::vector<std::string> names_;  ///< of places, as JSON strings
    std::vector<Track> tracks_;
    TraceSummary summary_;
};

}  // namespace

TraceSummary write_trace(std::ostream& out, const SimulatedKernel& kernel, const Machine& machine,
                         const TraceOptions& options) {
    return TraceWriter(out, kernel, machine, options).run();
}

TraceSummary trace_program(std::ostream& out, const nki::Program& program, const Machine& machine,
                           const TraceOptions& options) {
    Stream stream = lower(program, machine);
    compile(stream, machine);
    const Schedule schedule = make_schedule(stream, machine);
    Timeline timeline;
    timeline.keep_queues = true;
    simulate(stream, schedule, machine, nullptr, &timeline);
    return write_trace(out, {program, stream, schedule, timeline}, machine, options);
}

}  // namespace accelopt::trainium
