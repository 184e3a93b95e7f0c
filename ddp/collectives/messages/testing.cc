#include "ddp/collectives/messages/testing.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Route = std::tuple<int, int, Slot>;  // from, to

// A send or receive; `done` is guarded by the hub's mutex.
struct Posted {
  Route route;
  std::byte* data;
  size_t num_bytes;
  bool done = false;
};
using PostedPtr = std::shared_ptr<Posted>;

}  // namespace

class MessageHub {
 public:
  explicit MessageHub(int size) : size_(size) {}
  int size() const { return size_; }

  void Post(bool is_send, const PostedPtr& posted) {
    std::lock_guard lock(mutex_);
    std::deque<PostedPtr>& sends = sends_[posted->route];
    std::deque<PostedPtr>& receives = receives_[posted->route];
    (is_send ? sends : receives).push_back(posted);
    changed_.notify_all();
    if (sends.empty() || receives.empty()) return;
    Posted& from = *sends.front();
    Posted& to = *receives.front();
    if (from.num_bytes > to.num_bytes) std::abort();
    if (from.num_bytes > 0) std::memcpy(to.data, from.data, from.num_bytes);
    from.done = to.done = true;
    sends.pop_front();
    receives.pop_front();
  }

  // Takes back what hasn't met its other half.
  void Withdraw(bool is_send, const PostedPtr& posted) {
    std::lock_guard lock(mutex_);
    std::erase((is_send ? sends_ : receives_)[posted->route], posted);
  }

  // Returns false when one of `needed` closed first.
  bool Await(int rank, int peer, const Posted& posted, std::span<const int> needed,
             Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] {
      return posted.done || stopped_.contains(rank) || closed_.contains(peer) ||
             FirstClosed(needed).has_value();
    };
    const bool in_time = changed_.wait_until(lock, deadline, is_over);
    if (stopped_.contains(rank)) throw Stopped();
    if (posted.done) return true;
    if (!in_time) throw PeerTrouble(PeerTrouble::kTimedOut, {peer});
    if (closed_.contains(peer)) throw PeerTrouble(PeerTrouble::kLost, {peer});
    return false;
  }

  int AwaitSendFrom(int rank, std::span<const int> peers, Slot slot, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto sender = [&] {
      return std::ranges::find_if(peers, [&](int peer) {
        return !sends_[{peer, rank, slot}].empty();
      });
    };
    const auto is_over = [&] {
      return stopped_.contains(rank) || sender() != peers.end() || FirstClosed(peers).has_value();
    };
    const bool in_time = changed_.wait_until(lock, deadline, is_over);
    if (stopped_.contains(rank)) throw Stopped();
    if (sender() != peers.end()) return *sender();
    if (in_time) throw PeerTrouble(PeerTrouble::kLost, {*FirstClosed(peers)});
    throw PeerTrouble(PeerTrouble::kTimedOut, {peers.begin(), peers.end()});
  }

  std::optional<int> FindClosed(std::span<const int> ranks) {
    std::lock_guard lock(mutex_);
    return FirstClosed(ranks);
  }

  void Stop(int rank) {
    std::lock_guard lock(mutex_);
    stopped_.insert(rank);
    changed_.notify_all();
  }

  void Close(int rank) {
    std::lock_guard lock(mutex_);
    closed_.insert(rank);
    changed_.notify_all();
  }

 private:
  std::optional<int> FirstClosed(std::span<const int> ranks) const {
    for (const int rank : ranks) {
      if (closed_.contains(rank)) return rank;
    }
    return std::nullopt;
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<Route, std::deque<PostedPtr>> sends_;
  std::map<Route, std::deque<PostedPtr>> receives_;
  std::set<int> stopped_;
  std::set<int> closed_;
};

namespace {

class HubChannel : public Channel {
 public:
  HubChannel(MessageHub* hub, int rank, int peer, std::byte* data)
      : Channel(peer), hub_(hub), rank_(rank), data_(data) {}

  ~HubChannel() override {
    for (const PostedPtr& send : sends_) hub_->Withdraw(true, send);
    for (const PostedPtr& receive : receives_) hub_->Withdraw(false, receive);
  }

  void Send(Slot slot, size_t offset, size_t num_bytes) override {
    sends_.push_back(
        std::make_shared<Posted>(Route(rank_, peer(), slot), data_ + offset, num_bytes));
    hub_->Post(true, sends_.back());
  }

  void Receive(Slot slot, size_t offset, size_t num_bytes) override {
    receives_.push_back(
        std::make_shared<Posted>(Route(peer(), rank_, slot), data_ + offset, num_bytes));
    hub_->Post(false, receives_.back());
  }

  bool AwaitReceiveUnlessLost(std::span<const int> needed, Deadline deadline) override {
    if (!hub_->Await(rank_, peer(), *receives_.front(), needed, deadline)) return false;
    receives_.pop_front();
    return true;
  }

  void AwaitReceive(Deadline deadline) override { AwaitReceiveUnlessLost({}, deadline); }

  void AwaitReceives(Deadline deadline) override {
    while (!receives_.empty()) AwaitReceive(deadline);
  }

  void AwaitSends(Deadline deadline) override {
    for (; !sends_.empty(); sends_.pop_front()) {
      hub_->Await(rank_, peer(), *sends_.front(), {}, deadline);
    }
  }

 private:
  MessageHub* const hub_;
  const int rank_;
  std::byte* const data_;
  std::deque<PostedPtr> sends_;
  std::deque<PostedPtr> receives_;
};

class HubTransport : public Transport {
 public:
  HubTransport(std::shared_ptr<MessageHub> hub, int rank)
      : Transport(rank, hub->size()), hub_(std::move(hub)) {}
  ~HubTransport() override { Close(); }

  std::unique_ptr<Channel> Open(int peer, void* data, size_t, Deadline) override {
    return std::make_unique<HubChannel>(hub_.get(), rank(), peer, static_cast<std::byte*>(data));
  }

  int ReceiveFromAny(std::span<const int> peers, Slot slot, void* data, size_t num_bytes,
                     Deadline deadline) override {
    const int peer = hub_->AwaitSendFrom(rank(), peers, slot, deadline);
    const std::unique_ptr<Channel> channel = Open(peer, data, num_bytes, deadline);
    channel->Receive(slot, 0, num_bytes);
    channel->AwaitReceive(deadline);
    return peer;
  }

  std::optional<int> FindLost(std::span<const int> peers) override {
    return hub_->FindClosed(peers);
  }

  void Stop() override { hub_->Stop(rank()); }
  void Close() override { hub_->Close(rank()); }

 private:
  const std::shared_ptr<MessageHub> hub_;
};

}  // namespace

std::shared_ptr<MessageHub> MakeMessageHub(int size) { return std::make_shared<MessageHub>(size); }

std::unique_ptr<Transport> MakeHubTransport(std::shared_ptr<MessageHub> hub, int rank) {
  return std::make_unique<HubTransport>(std::move(hub), rank);
}

}  // namespace ddp
