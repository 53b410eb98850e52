#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "llm/provider.h"

namespace accelopt::llm {

/// Makes the `batch` provider. A model's `folder` holds `requests/*.jsonl`, OpenAI-batch files that
/// it writes, and `answers/*.jsonl`, the output files of whoever answers them (`vllm run-batch`, a
/// hosted batch API, a person). When no call has come for `quiet_s`, the calls without an answer
/// are written as one file; then they wait for answers when the model's `wait` is set, and else end
/// as `cancelled`, unsent, with an error that names the file: the run can be continued later.
std::shared_ptr<Provider> make_batch_provider(Clock& clock = system_clock(), double quiet_s = 1.0);

/// The custom_id of a call: of the run, unit, role, sample and try.
std::string batch_id(const ModelOptions& model, const Request& request, int attempt);

/// What lies in a folder of answer files.
struct BatchAnswers {
    std::map<std::string, std::string> lines;  ///< answer line by custom_id
    int duplicates = 0;                        ///< the first good answer counts
    int unreadable = 0;  ///< lines that are no JSON: a file still being written
};

/// Reads all answer files of a folder. A line that another run asked for is Error(kUser, "batch")
/// with file:line, before anything of it is used.
BatchAnswers read_batch_answers(const std::string& folder, const std::string& run_id);

/// Fills a result from one answer line.
void read_batch_answer(const std::string& line, TryResult& result);

}  // namespace accelopt::llm
