#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace accelopt::cluster {

/// Which role of a rank a message is for; rank 0 may play both.
enum class Mailbox : std::uint8_t { kCoordinator, kWorker };

/// What a message says; see messages.h for the payloads.
enum class MessageType : std::uint8_t {
    // to workers
    kStart,       ///< run directory, launch and resolved configuration
    kLease,       ///< a unit to run
    kClaimReply,  ///< evaluate it yourself, or here is the verdict
    kReserved,    ///< the answer to a reservation
    kHold,        ///< do not send to a model for some seconds
    kStop,        ///< leave with this exit code
    // to the coordinator
    kRequest,     ///< free places for units
    kResult,      ///< a finished unit
    kClaim,       ///< may I evaluate this kernel?
    kEvaluated,   ///< the verdict on a claimed kernel
    kReserve,     ///< what a call about to be sent may cost
    kRelease,     ///< a reservation is over
    kSpent,       ///< a ledger row
    kFatal,       ///< this worker cannot go on
    kInterrupted  ///< this rank was signalled: drain the run
};

struct Message {
    int source = 0;
    MessageType type = MessageType::kStop;
    std::string payload;
};

/// Moves messages between the ranks of a run. Nothing blocks and nothing is collective: `send`
/// buffers, `receive` returns what has arrived. Messages of one sender arrive in order.
class Transport {
  public:
    virtual ~Transport() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// Ranks on this node, this one included.
    virtual int local_size() const = 0;
    virtual void send(int destination, Mailbox mailbox, MessageType type, std::string payload) = 0;
    virtual std::optional<Message> receive(Mailbox mailbox) = 0;
    /// Tries to bring every buffered message out, for at most `wait_s` seconds.
    virtual void flush(double wait_s) = 0;
};

/// The ranks of a run within one process and thread: the whole of a run without mpirun, and the
/// world of tests.
class LocalWorld {
  public:
    explicit LocalWorld(int size);
    ~LocalWorld();
    Transport& endpoint(int rank);

  private:
    struct Endpoint;
    std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

/// True when the process was started by an MPI launcher (mpirun, srun --mpi=pmix).
bool launched_by_mpi();

/// Starts MPI (once per process) and returns the transport over MPI_COMM_WORLD; its destructor
/// finalises MPI.
std::unique_ptr<Transport> make_mpi_transport();

}  // namespace accelopt::cluster
