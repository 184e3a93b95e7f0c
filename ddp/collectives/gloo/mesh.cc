#include "ddp/collectives/gloo/mesh.h"

#include <algorithm>
#include <chrono>

#include "gloo/transport/pair.h"

namespace ddp::gloo_backend {
namespace {

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

constexpr milliseconds kForever = std::chrono::hours(24 * 365);

enum class Outcome { kDone, kInterrupted, kFailed };

// Gloo throws for a broken connection and for a timeout alike.
Outcome WaitOnce(UnboundBuffer* buffer, bool is_send, milliseconds timeout) {
  try {
    const bool done = is_send ? buffer->waitSend(timeout) : buffer->waitRecv(timeout);
    return done ? Outcome::kDone : Outcome::kInterrupted;
  } catch (const std::exception&) {
    return Outcome::kFailed;
  }
}

}  // namespace

Mesh::Mesh(Connections connections, int rank, int size)
    : rank_(rank),
      size_(size),
      connections_(std::move(connections)),
      lost_(size, false),
      watcher_([this] { Watch(); }) {}

Mesh::~Mesh() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    if (sentinel_ != nullptr) sentinel_->abortWaitRecv();
  }
  watcher_.join();
  connections_.ticker->Start();
  connections_.context.reset();
  connections_.device.reset();
}

Channel Mesh::Open(int peer, void* data, size_t num_bytes) {
  return Channel(this, peer, connections_.context->createUnboundBuffer(data, num_bytes));
}

void Mesh::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  InterruptIfHopeless();
}

void Mesh::Close() {
  connections_.ticker->Start();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) connections_.context->getPair(peer)->close();
  }
}

std::optional<int> Mesh::FindLost(std::span<const int> peers) {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(peers, [this](int peer) { return lost_[peer]; });
  return found == peers.end() ? std::nullopt : std::optional(*found);
}

bool Mesh::Await(const Pending& pending, Deadline deadline) {
  BeginWait(pending);
  const Outcome outcome =
      WaitOnce(pending.buffer, pending.is_send, milliseconds(MillisecondsLeft(deadline)));
  EndWait();
  if (outcome == Outcome::kDone) return true;
  if (Clock::now() >= deadline) throw PeerTrouble(PeerTrouble::kTimedOut, {pending.peer});
  if (outcome == Outcome::kInterrupted && !IsLost(pending.peer)) return false;
  // What had arrived before the peer was lost counts: it may have left in good order.
  if (WaitOnce(pending.buffer, pending.is_send, milliseconds(1)) == Outcome::kDone) return true;
  ThrowLost(pending.peer);
}

bool Mesh::IsLost(int peer) {
  std::lock_guard lock(mutex_);
  return lost_[peer];
}

void Mesh::BeginWait(const Pending& pending) {
  std::lock_guard lock(mutex_);
  if (stopped_) throw Stopped();
  waiting_ = pending;
  InterruptIfHopeless();
}

void Mesh::EndWait() {
  std::lock_guard lock(mutex_);
  waiting_ = Pending();
  if (stopped_) throw Stopped();
}

void Mesh::ThrowLost(int peer) {
  std::lock_guard lock(mutex_);
  if (stopped_) throw Stopped();
  throw PeerTrouble(PeerTrouble::kLost, {peer});
}

void Mesh::InterruptIfHopeless() {
  if (waiting_.buffer == nullptr) return;
  const auto is_lost = [this](int peer) { return lost_[peer]; };
  if (!stopped_ && !is_lost(waiting_.peer) && std::ranges::none_of(waiting_.needed, is_lost)) {
    return;
  }
  if (waiting_.is_send) {
    waiting_.buffer->abortWaitSend();
  } else {
    waiting_.buffer->abortWaitRecv();
  }
}

// A connection that breaks fails the receives that wait on it, among them the sentinel's.
void Mesh::Watch() {
  const ScopedIgnoreSigpipe guard;
  for (uint64_t round = 0;; ++round) {
    const auto sentinel = connections_.context->createUnboundBuffer(nullptr, 0);
    if (!PostSentinel(sentinel.get(), round)) return;
    WaitOnce(sentinel.get(), false, kForever);
    std::lock_guard lock(mutex_);
    sentinel_ = nullptr;
  }
}

bool Mesh::PostSentinel(UnboundBuffer* sentinel, uint64_t round) {
  std::vector<bool> lost(size_, false);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    try {
      sentinel->recv(peer, kWatch + round, 0, 0);
    } catch (const std::exception&) {
      lost[peer] = true;
    }
  }
  std::lock_guard lock(mutex_);
  lost_ = lost;
  InterruptIfHopeless();
  sentinel_ = sentinel;
  return !ending_;
}

void Channel::Send(Slot slot, size_t offset, size_t num_bytes) {
  try {
    buffer_->send(peer_, slot, offset, num_bytes);
  } catch (const std::exception&) {
    mesh_->ThrowLost(peer_);
  }
  ++pending_sends_;
}

void Channel::Receive(Slot slot, size_t offset, size_t num_bytes) {
  try {
    buffer_->recv(peer_, slot, offset, num_bytes);
  } catch (const std::exception&) {
    mesh_->ThrowLost(peer_);
  }
  ++pending_receives_;
}

void Channel::AwaitReceive(Deadline deadline) {
  mesh_->Await({.buffer = buffer_.get(), .peer = peer_, .is_send = false}, deadline);
  --pending_receives_;
}

bool Channel::AwaitReceiveUnlessLost(std::span<const int> needed, Deadline deadline) {
  const Mesh::Pending pending{
      .buffer = buffer_.get(), .peer = peer_, .is_send = false, .needed = needed};
  if (!mesh_->Await(pending, deadline)) return false;
  --pending_receives_;
  return true;
}

void Channel::AwaitReceives(Deadline deadline) {
  while (pending_receives_ > 0) AwaitReceive(deadline);
}

void Channel::AwaitSends(Deadline deadline) {
  for (; pending_sends_ > 0; --pending_sends_) {
    mesh_->Await({.buffer = buffer_.get(), .peer = peer_, .is_send = true}, deadline);
  }
}

}  // namespace ddp::gloo_backend
