// accelopt-eval: one JSON request per line on standard input, one JSON reply per line on standard
// output.

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <string>

#include "core/error.h"
#include "eval/evaluator.h"

namespace {

using accelopt::ExitCode;

constexpr std::size_t kMaxRequestBytes = 64u << 20;

constexpr const char* kHelp = R"(
Reads one JSON request per line on standard input and answers each with one JSON line on standard
output, in order; a malformed line is answered too. Ends with status 0 at the end of the input.
Messages for people go to standard error.

Example, from the source tree:
  python3 -c 'import json; print(json.dumps({"schema": 1, "id": "first", "problem": "silu",
    "target": "trn1", "shape": "test", "seeds": [0, 1], "secret": "any text",
    "tiers": ["legality", "timing", "values"], "limits": {"steps": 200000000},
    "source": open("nkibench/silu/baseline.py").read()}))' | accelopt-eval

  problem  an id of nkibench/, or a path to a folder that holds problem.yaml
  target   a machine of configs/hardware/, or a path to such a file
  source   the kernel's text; "entry" names its function when several are there
  seeds    numbers of input sets; "secret" decides the inputs together with them
  tiers    legality, timing, seed, values, stress, order: what to check, in this order; default
           legality, timing, values, stress
  shape    full, or the problem's small test shape

The reply's "outcome" is ok, syntax_error, unsupported, rejected, incorrect, implausible,
resource_limit or evaluator_error, with a "reason", diagnostics that carry source positions, the
error per output and input set, and the predicted profile.)";

/// Reads lines of bounded length from a descriptor.
class LineReader {
  public:
    enum class Status { kLine, kTooLong, kEnd };

    Status next(std::string& line) {
        bool too_long = false;
        for (;;) {
            const std::size_t end = buffer_.find('\n', scanned_);
            if (end != std::string::npos) {
                line = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                scanned_ = 0;
                return too_long ? Status::kTooLong : Status::kLine;
            }
            scanned_ = buffer_.size();
            if (buffer_.size() > kMaxRequestBytes) {
                too_long = true;
                buffer_.clear();
                scanned_ = 0;
            }
            if (!fill()) break;
        }
        line = std::exchange(buffer_, {});
        scanned_ = 0;
        if (too_long) return Status::kTooLong;
        return line.empty() ? Status::kEnd : Status::kLine;
    }

  private:
    bool fill() {
        char chunk[65536];
        for (;;) {
            const ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
            if (n > 0) {
                buffer_.append(chunk, static_cast<std::size_t>(n));
                return true;
            }
            if (n == 0 || errno != EINTR) return false;
        }
    }

    std::string buffer_;
    std::size_t scanned_ = 0;
};

bool write_all(int fd, const std::string& text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const ssize_t n = write(fd, text.data() + at, text.size() - at);
        if (n > 0) {
            at += static_cast<std::size_t>(n);
        } else if (n < 0 && errno != EINTR) {
            return false;
        }
    }
    return true;
}

accelopt::protocol::EvaluationReply bad_request(const std::string& message) {
    accelopt::protocol::EvaluationReply reply;
    reply.outcome = accelopt::protocol::Outcome::kEvaluatorError;
    reply.reason = "bad_request";
    reply.accelopt_version = ACCELOPT_VERSION;
    accelopt::protocol::Diagnostic diagnostic;
    diagnostic.code = "bad_request";
    diagnostic.message = message;
    reply.diagnostics.push_back(diagnostic);
    return reply;
}

accelopt::protocol::EvaluationReply answer(accelopt::eval::Evaluator& evaluator,
                                           LineReader::Status status, const std::string& line) {
    if (status == LineReader::Status::kTooLong) {
        return bad_request("the request is longer than 64 MiB");
    }
    const auto request = accelopt::protocol::parse_evaluation_request(line);
    return request ? evaluator.evaluate(*request) : bad_request(request.error());
}

/// Keeps large freed blocks in the heap: outputs and numpy's temporaries of 100 MB come and go with
/// every input set, and fresh pages from the kernel cost as much as the arithmetic on them.
void keep_freed_memory() {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

/// Gives memory back after an evaluation that needed unusually much.
void return_excess_memory() {
    constexpr std::size_t kKept = std::size_t{2} << 30;
    if (mallinfo2().fordblks > kKept) malloc_trim(0);
}

int serve(const accelopt::eval::EvaluatorOptions& options) {
    keep_freed_memory();
    // Whatever else prints in this process (a reference's print) must not reach the protocol.
    const int replies = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    accelopt::eval::Evaluator evaluator(options);
    LineReader reader;
    std::string line;
    for (;;) {
        const LineReader::Status status = reader.next(line);
        if (status == LineReader::Status::kEnd) return static_cast<int>(ExitCode::kOk);
        const bool blank = line.find_first_not_of(" \t\r") == std::string::npos;
        if (blank && status == LineReader::Status::kLine) continue;
        if (!write_all(replies, to_json(answer(evaluator, status, line)) + "\n")) {
            std::fprintf(stderr, "accelopt-eval: nobody reads the replies\n");
            return static_cast<int>(ExitCode::kInternal);
        }
        return_excess_memory();
    }
}

}  // namespace

int main(int argc, char** argv) {
    signal(SIGPIPE, SIG_IGN);
    accelopt::eval::EvaluatorOptions options;
    CLI::App app("Evaluates NKI kernels against benchmark problems on the Trainium model.",
                 "accelopt-eval");
    app.footer(kHelp);
    app.set_version_flag("--version", ACCELOPT_VERSION);
    app.add_option("--cache", options.cache_directory,
                   "folder for references shared with other evaluators (default: none)");
    app.add_option("--cache-bytes", options.cache_bytes, "bound of that folder")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    try {
        app.parse(argc, argv);
        return serve(options);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
    } catch (const accelopt::Error& error) {
        std::fprintf(stderr, "accelopt-eval: %s\n", error.what());
        const bool usage = error.source() == accelopt::ErrorSource::kConfig ||
                           error.source() == accelopt::ErrorSource::kUser;
        return static_cast<int>(usage ? ExitCode::kUsage : ExitCode::kInternal);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "accelopt-eval: %s\n", error.what());
        return static_cast<int>(ExitCode::kInternal);
    }
}
