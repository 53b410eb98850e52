#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agents/agents.h"
#include "cluster/budget.h"
#include "config/run_config.h"
#include "core/error.h"
#include "eval/problem.h"
#include "llm/provider.h"
#include "search/campaign.h"

namespace accelopt::cluster {

/// What every rank of a run must agree on; sent by the coordinator when a worker starts.
struct RunContext {
    config::RunConfig config;
    std::string directory;  ///< run directory on the shared file system
    int launch = 0;
    int ranks = 1;
    bool coordinator_works = true;
    std::string machine_hash;  ///< of the target's description

    std::string serialise() const;
    static RunContext parse(const std::string& payload);

    /// The run secret that input seeds derive from: of `run.secret_env`, else of `run.seed`.
    std::string secret() const;
    /// Identity of one evaluation: everything its verdict depends on, the problem's definition
    /// (`Problem::definition_sha256`) among it, so that a changed problem judges anew.
    std::string evaluation_key(const std::string& problem, const std::string& definition_sha256,
                               const std::string& source) const;
    /// Node-local folder of the reference cache.
    std::string cache_directory() const;
    /// Fills what a model's options take from the run: the mark of its batches, and their folder.
    void place(llm::ModelOptions& options) const;
    /// Why a run ended with an outcome that ends it, and what to do about it.
    std::string why_ended(protocol::LlmOutcome outcome) const;
    /// Number in the worker's journal name; rank 0's own number belongs to the coordinator.
    int journal_rank(int rank) const { return rank == 0 ? ranks : rank; }
};

/// How a run ends, resumable, that had a call with this outcome; nullopt for an outcome that says
/// nothing about the calls to come.
std::optional<ExitCode> ends_run(protocol::LlmOutcome outcome);

/// The budgets of a configuration.
BudgetLimits budget_limits(const config::RunConfig& config);

/// The search of a configuration, and where each of its problems starts. Error(kConfig, "baseline")
/// with file:line when a baseline does not parse.
search::CampaignOptions campaign_options(const config::RunConfig& config);
std::vector<search::ProblemStart> problem_starts(const config::RunConfig& config);

/// The file of the kernel that a problem of the run starts from: of `suite`, else its baseline.
std::string starting_kernel(const config::RunConfig& config, const std::string& problem);

/// Chooses the problems of a run that has a `suite`: all of it unless `problems` names some; makes
/// the suite's path absolute. Error(kUser) when a problem or its kernel is missing.
void choose_suite_problems(config::RunConfig& config);

/// Evaluator processes per worker when `evaluator.slots` is auto: the node's cores shared among its
/// workers, at least one.
int automatic_slots(int workers_on_node);

/// What prompts and the builtin model may know about a problem: of its reference what defines the
/// result, nothing that judges kernels. Error(kConfig, "reference") when its reference is no
/// Python text with a forward().
agents::ProblemFacts problem_facts(const eval::Problem& problem);

}  // namespace accelopt::cluster
