#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "eval/problem.h"
#include "eval/reference/expected.h"
#include "eval/reference/input_set.h"
#include "eval/reference/reference_data.h"

namespace accelopt::eval {

/// The inputs of one set and what the reference makes of them.
class Reference {
  public:
    Reference(std::vector<std::shared_ptr<const ReferenceData>> inputs,
              std::shared_ptr<const ReferenceData> expected, bool conditioned)
        : inputs_(std::move(inputs)), expected_(std::move(expected)), conditioned_(conditioned) {}

    /// Tensors in argument order.
    std::size_t inputs() const { return inputs_.size(); }
    std::span<const float> input(std::size_t i) const { return inputs_.at(i)->array(0); }
    ExpectedOutput output(std::size_t i) const;

  private:
    std::vector<std::shared_ptr<const ReferenceData>> inputs_;
    std::shared_ptr<const ReferenceData> expected_;
    bool conditioned_;
};

/// Which results of reference.py are kept.
enum class ReferenceKind {
    kPublished,    ///< forward in float32
    kConditioned,  ///< forward and scale in float64
};

/// Hands out inputs and references, computing each at most once: kept warm in this process, and
/// shared between processes through files in a cache folder, one per input tensor and one per set
/// of results, named by a hash of everything that decides their contents (distribution or
/// problem.yaml and reference.py, shape, seed, numpy, BLAS). Sets that replace some inputs share
/// the files of the others. Files appear complete or not at all; a key is computed under a lock
/// file, so that several evaluators wait for one instead of all computing; the least recently used
/// files make room when the folder would exceed its bound. The run secret is never stored. Meant
/// for a folder on a disk of this machine.
class ReferenceStore {
  public:
    /// `directory` "" keeps references in this process only, within a quarter of the machine's
    /// memory. Throws Error(kConfig, "cache_directory") when the folder cannot be made.
    ReferenceStore(std::string directory, std::int64_t bytes);

    /// The set's tensors and what the reference makes of them, each in the reference's own shape.
    /// The error says what the reference did wrong. Throws for I/O and lack of memory.
    Result<Reference, std::string> get(const Problem& problem, const InputSet& set,
                                       ReferenceKind kind);
    /// The set with `function` (forward with a term left out) in place of forward; S as ever.
    Result<Reference, std::string> get_variant(const Problem& problem, const InputSet& set,
                                               const std::string& function);

    const std::string& directory() const { return directory_; }
    /// How many references this store computed, and how many it read from the folder; inputs are
    /// not counted.
    int computed() const { return computed_; }
    int loaded() const { return loaded_; }

  private:
    using Data = std::shared_ptr<const ReferenceData>;
    /// Fills the arrays of a new mapping; an error sentence when it cannot.
    using Fill = std::function<std::optional<std::string>(ReferenceData&)>;
    /// One mapping to be found or made.
    struct Wanted {
        std::string key;   ///< 64 hexadecimal digits
        std::string name;  ///< first part of its file's name
        std::vector<std::int64_t> array_bytes;
        Fill fill;
        int* computed;
        int* loaded;
    };
    struct Warm {
        std::string key;
        Data data;
    };

    Result<Data, std::string> obtain(const Wanted& wanted);
    Result<Data, std::string> obtain_shared(const Wanted& wanted);
    Result<Data, std::string> fill(const Wanted& wanted, std::shared_ptr<ReferenceData> target,
                                   const std::string& key);
    Data open(const std::string& file, const Wanted& wanted);
    void keep_warm(const std::string& key, const Data& data);
    Data obtain_input(const Problem& problem, const InputSet& set, std::size_t index,
                      std::string& key);
    Result<Reference, std::string> obtain_results(const Problem& problem, const InputSet& set,
                                                  ReferenceKind kind, const std::string& function);

    std::string directory_;
    std::int64_t bytes_;
    std::list<Warm> warm_;  ///< most recently used first
    int computed_ = 0;
    int loaded_ = 0;
    int inputs_drawn_ = 0;
    int inputs_loaded_ = 0;
};

/// Removes the least recently used cache files of `directory` until `needed` more bytes fit into
/// `limit`, and left-overs of killed processes. Missing files and races with other processes are
/// no error.
void make_room(const std::string& directory, std::int64_t needed, std::int64_t limit);

}  // namespace accelopt::eval
