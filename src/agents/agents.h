#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/result.h"
#include "llm/message.h"
#include "protocol/unit.h"

namespace accelopt::agents {

/// Facts about a problem that prompts and the builtin model need.
struct ProblemFacts {
    std::string id;
    std::string title;
    std::string reference_source;                         ///< what defines the result
    std::vector<std::vector<std::int64_t>> input_shapes;  ///< kernel view
};

/// Prompt templates from a folder (planner.system.md, planner.user.md, ...), with {{placeholders}};
/// an unknown or an unused placeholder is an error at load that names file and line. A placeholder
/// counts as used when the system or the user template of its role has it. {{api}} (the functions
/// with their parameters, some 8 KB) and {{api_entries}} (their names) may be left out, and so may
/// the planner's {{analysis}}: the published prompts have nothing like it.
class Prompts {
  public:
    /// Loads all templates; Error(kConfig, "prompts") when one is missing or wrong.
    explicit Prompts(const std::string& folder);
    /// The template as written; `name` is "planner.system", ...
    const std::string& text(const std::string& name) const;
    /// The template with every placeholder replaced once; what a value holds is never expanded.
    std::string fill(const std::string& name,
                     const std::map<std::string, std::string>& values) const;

  private:
    std::map<std::string, std::string> texts_;
};

/// What fits into a model: a prompt and its answer together.
struct ContextLimit {
    std::int64_t context_tokens = 0;  ///< 0 = not known: nothing is trimmed
    std::int64_t max_tokens = 0;      ///< of the answer
};

/// Builds requests. `limits` by model key: a planner's prompt that would not fit is built with
/// fewer experiences, the last ones (the oldest) left out first, and the request says which.
/// `models` maps role names to model keys; `seed` is the run's. A role without a model is
/// Error(kConfig, "agents") when it is asked for. Same unit and seed, same request.
class Agents {
  public:
    Agents(Prompts prompts, std::map<std::string, std::string> models, std::uint64_t seed,
           std::map<std::string, ContextLimit> limits = {});
    llm::Request planner(const protocol::Unit& unit, const ProblemFacts& problem) const;
    llm::Request executor(const protocol::Unit& unit, const ProblemFacts& problem,
                          const std::string& plan, int sample) const;
    /// Asks to mend `source`, which the evaluator turned down with these words; `attempt` counts
    /// the repairs of a sample from 0.
    llm::Request fixer(const protocol::Unit& unit, const ProblemFacts& problem,
                       const std::string& source, const std::string& diagnostics, int sample,
                       int attempt) const;
    llm::Request summarizer(const protocol::Unit& unit, const ProblemFacts& problem) const;

  private:
    bool fits(const llm::Request& request) const;

    Prompts prompts_;
    std::map<std::string, std::string> models_;
    std::uint64_t seed_;
    std::map<std::string, ContextLimit> limits_;
};

/// True for a verdict that a fixer may mend: the checks turned the kernel down before its values
/// were looked at.
bool can_be_repaired(const protocol::EvaluationReply& verdict);
/// "outcome/reason".
std::string verdict_name(const protocol::EvaluationReply& verdict);
/// What a fixer is told: the verdict and every finding with line, snippet, limit and remedy.
std::string verdict_text(const protocol::EvaluationReply& verdict);

/// What was found in an executor's reply.
struct ExtractedKernel {
    std::string source;
    std::string normalised_hash;  ///< "" when it does not parse (the evaluator will say why)
};

/// Finds the kernel in a reply: the whole reply when it is a kernel, else the last complete fence
/// (python, py or bare) that defines an entry function: one decorated with nki.jit, or named
/// `kernel` or `optimized_kernel`. Backticks inside the code's strings end nothing. The error says
/// why nothing was found.
///
/// A reply of search-and-replace edits (edits.h) is applied to `parent`, when there is one: every
/// edit must fit, or nothing is extracted.
Result<ExtractedKernel, std::string> extract_kernel(const std::string& reply,
                                                    const std::string& parent = "");

/// Splits a summarizer's reply into title and text; an empty title when it says nothing was found.
void parse_summary(const std::string& reply, protocol::Experience& experience);

}  // namespace accelopt::agents
