#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "eval/problem.h"
#include "eval/reference/reference_data.h"

namespace accelopt::eval {

/// Hands out references, computing each at most once: kept warm in this process, and shared between
/// processes through files in a cache folder, named by a hash of everything that decides their
/// contents (problem.yaml, reference.py, shape, seed, numpy, BLAS). Files appear complete or not at
/// all; a key is computed under a lock file, so that several evaluators wait for one instead of all
/// computing; the least recently used files make room when the folder would exceed its bound. The
/// run secret is never stored. Meant for a folder on a disk of this machine.
class ReferenceStore {
  public:
    /// `directory` "" keeps references in this process only, within a quarter of the machine's
    /// memory. Throws Error(kConfig,
    /// "cache_directory") when the folder cannot be made.
    ReferenceStore(std::string directory, std::int64_t bytes);

    /// Inputs (tensors in argument order), then outputs, each in the reference's own shape. The
    /// error says what the reference did wrong. Throws for I/O and lack of memory.
    Result<std::shared_ptr<const ReferenceData>, std::string> get(const Problem& problem,
                                                                  const std::string& seed_hex);

    /// How many references this store computed, and how many it read from the folder.
    int computed() const { return computed_; }
    int loaded() const { return loaded_; }

  private:
    using Data = std::shared_ptr<const ReferenceData>;
    struct Warm {
        std::string key;
        Data data;
    };

    std::string key_of(const Problem& problem, const std::string& seed_hex) const;
    std::string file_of(const Problem& problem, const std::string& key) const;
    Result<Data, std::string> compute_shared(const Problem& problem, const std::string& seed_hex,
                                             const std::string& key);
    Result<Data, std::string> compute(const Problem& problem, const std::string& seed_hex,
                                      std::shared_ptr<ReferenceData> target,
                                      const std::string& key);
    Data open(const std::string& file, const std::string& key, const Problem& problem);
    void keep_warm(const std::string& key, const Data& data);

    std::string directory_;
    std::int64_t bytes_;
    std::list<Warm> warm_;  ///< most recently used first
    int computed_ = 0;
    int loaded_ = 0;
};

/// Removes the least recently used cache files of `directory` until `needed` more bytes fit into
/// `limit`, and left-overs of killed processes. Missing files and races with other processes are
/// no error.
void make_room(const std::string& directory, std::int64_t needed, std::int64_t limit);

}  // namespace accelopt::eval
