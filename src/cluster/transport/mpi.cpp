// The C++ bindings that OpenMPI 4 still ships do not compile without warnings.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <climits>
#include <cstdlib>
#include <deque>
#include <list>
#include <utility>

#include "cluster/transport/transport.h"
#include "core/clock.h"
#include "core/error.h"

namespace accelopt::cluster {
namespace {

/// Non-blocking point-to-point only: no collective can hang a run whose ranks leave at different
/// times (facts/cluster.md section 1).
class MpiTransport : public Transport {
  public:
    MpiTransport() {
        int provided = 0;
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SINGLE, &provided);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        MPI_Comm node = MPI_COMM_NULL;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
        MPI_Comm_size(node, &local_size_);
        MPI_Comm_free(&node);
    }

    ~MpiTransport() override {
        flush(1.0);
        if (sends_.empty()) {
            MPI_Finalize();
        } else {
            // A peer is gone: finalising could wait for it for ever.
            std::_Exit(static_cast<int>(ExitCode::kInternal));
        }
    }

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    int local_size() const override { return local_size_; }

    void send(int destination, Mailbox mailbox, MessageType type, std::string payload) override {
        if (destination == rank_) {
            own_[static_cast<std::size_t>(mailbox)].push_back({rank_, type, std::move(payload)});
            return;
        }
        require(payload.size() < INT_MAX, "message larger than 2 GiB");
        sends_.emplace_back();
        Pending& pending = sends_.back();
        pending.payload = std::move(payload);
        const int tag = static_cast<int>(mailbox) * kTypes + static_cast<int>(type);
        MPI_Isend(pending.payload.data(), static_cast<int>(pending.payload.size()), MPI_BYTE,
                  destination, tag, MPI_COMM_WORLD, &pending.request);
        progress();
    }

    std::optional<Message> receive(Mailbox mailbox) override {
        drain();
        auto& queue = own_[static_cast<std::size_t>(mailbox)];
        if (queue.empty()) return std::nullopt;
        Message message = std::move(queue.front());
        queue.pop_front();
        return message;
    }

    void flush(double wait_s) override {
        const double deadline = system_clock().monotonic_s() + wait_s;
        progress();
        while (!sends_.empty() && system_clock().monotonic_s() < deadline) {
            drain();
            system_clock().sleep(0.0005);
            progress();
        }
    }

  private:
    static constexpr int kTypes = 64;
    struct Pending {
        std::string payload;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    void progress() {
        for (auto it = sends_.begin(); it != sends_.end();) {
            int done = 0;
            MPI_Test(&it->request, &done, MPI_STATUS_IGNORE);
            it = done ? sends_.erase(it) : std::next(it);
        }
    }

    /// Takes whatever has arrived into the inboxes, so that senders can complete.
    void drain() {
        progress();
        for (;;) {
            int found = 0;
            MPI_Message handle = MPI_MESSAGE_NULL;
            MPI_Status status;
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &handle, &status);
            if (!found) return;
            int count = 0;
            MPI_Get_count(&status, MPI_BYTE, &count);
            Message message;
            message.source = status.MPI_SOURCE;
            message.type = static_cast<MessageType>(status.MPI_TAG % kTypes);
            message.payload.resize(static_cast<std::size_t>(count));
            MPI_Mrecv(message.payload.data(), count, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
            own_[static_cast<std::size_t>(status.MPI_TAG / kTypes)].push_back(std::move(message));
        }
    }

    int rank_ = 0;
    int size_ = 1;
    int local_size_ = 1;
    std::list<Pending> sends_;
    std::deque<Message> own_[2];
};

}  // namespace

bool launched_by_mpi() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
        if (std::getenv(name)) return true;
    }
    return false;
}

std::unique_ptr<Transport> make_mpi_transport() { return std::make_unique<MpiTransport>(); }

}  // namespace accelopt::cluster
