#include <deque>
#include <utility>

#include "cluster/transport/transport.h"
#include "core/error.h"

namespace accelopt::cluster {

struct LocalWorld::Endpoint : Transport {
    Endpoint(LocalWorld& world_in, int rank_in) : world(world_in), own_rank(rank_in) {}

    int rank() const override { return own_rank; }
    int size() const override { return static_cast<int>(world.endpoints_.size()); }
    int local_size() const override { return size(); }

    void send(int destination, Mailbox mailbox, MessageType type, std::string payload) override {
        require(destination >= 0 && destination < size(), "message to an unknown rank");
        world.endpoints_[static_cast<std::size_t>(destination)]
            ->inbox[static_cast<std::size_t>(mailbox)]
            .push_back({own_rank, type, std::move(payload)});
    }

    std::optional<Message> receive(Mailbox mailbox) override {
        auto& queue = inbox[static_cast<std::size_t>(mailbox)];
        if (queue.empty()) return std::nullopt;
        Message message = std::move(queue.front());
        queue.pop_front();
        return message;
    }

    void flush(double) override {}

    LocalWorld& world;
    int own_rank;
    std::deque<Message> inbox[2];
};

LocalWorld::LocalWorld(int size) {
    for (int rank = 0; rank < size; ++rank) {
        endpoints_.push_back(std::make_unique<Endpoint>(*this, rank));
    }
}

LocalWorld::~LocalWorld() = default;

Transport& LocalWorld::endpoint(int rank) { return *endpoints_.at(static_cast<std::size_t>(rank)); }

}  // namespace accelopt::cluster
