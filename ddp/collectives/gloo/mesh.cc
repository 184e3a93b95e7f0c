#include "ddp/collectives/gloo/mesh.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "ddp/collectives/gloo/pair.h"
#include "ddp/store/socket.h"
#include "gloo/transport/tcp/attr.h"

namespace ddp {
namespace {

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// Beyond those of messages.
constexpr uint64_t kFirstWatchSlot = uint64_t{1} << 32;
// A peer whose call doesn't come that long is called once more.
constexpr Duration kCallAgainAfter = milliseconds(200);

// How long a rank that leaves waits until its last bytes have left, and how often it looks.
constexpr Duration kLongestFarewell = std::chrono::seconds(2);
constexpr Duration kGlance = std::chrono::microseconds(200);

enum class Outcome { kDone, kInterrupted, kFailed };

// Gloo throws for a broken connection and for a timeout alike, and closes all connections after a
// timeout: peers would see them break before they can know why.
Outcome WaitOnce(UnboundBuffer* buffer, bool is_send, int* from, milliseconds timeout = kForever) {
  try {
    const bool done = is_send ? buffer->waitSend(timeout) : buffer->waitRecv(from, timeout);
    return done ? Outcome::kDone : Outcome::kInterrupted;
  } catch (const std::exception&) {
    return Outcome::kFailed;
  }
}

std::shared_ptr<gloo::transport::tcp::Device> CreateDevice(const std::string& address) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address;
  try {
    return std::dynamic_pointer_cast<gloo::transport::tcp::Device>(
        gloo::transport::tcp::CreateDevice(attributes));
  } catch (const std::exception& error) {
    throw std::invalid_argument(fmt::format("can't listen on {}: {}", address, error.what()));
  }
}

}  // namespace

class MeshChannel : public Channel {
 public:
  MeshChannel(Mesh* mesh, int peer, std::unique_ptr<UnboundBuffer> buffer)
      : Channel(peer), mesh_(mesh), peer_(peer), buffer_(std::move(buffer)) {}

  void Send(Slot slot, size_t offset, size_t num_bytes) override {
    try {
      buffer_->send(peer_, static_cast<uint64_t>(slot), offset, num_bytes);
    } catch (const std::exception&) {
      mesh_->ThrowLost(peer_);
    }
    ++pending_sends_;
  }

  void Receive(Slot slot, size_t offset, size_t num_bytes) override {
    try {
      buffer_->recv(peer_, static_cast<uint64_t>(slot), offset, num_bytes);
    } catch (const std::exception&) {
      mesh_->ThrowLost(peer_);
    }
    ++pending_receives_;
  }

  bool AwaitReceiveUnlessLost(std::span<const int> needed, Deadline deadline) override {
    const Mesh::Pending pending{.buffer = buffer_.get(),
                                .is_send = false,
                                .peers = {&peer_, 1},
                                .needed = needed,
                                .deadline = deadline};
    if (!mesh_->Await(pending)) return false;
    --pending_receives_;
    return true;
  }

  void AwaitReceive(Deadline deadline) override { AwaitReceiveUnlessLost({}, deadline); }

  void AwaitReceives(Deadline deadline) override {
    while (pending_receives_ > 0) AwaitReceive(deadline);
  }

  void AwaitSends(Deadline deadline) override {
    for (; pending_sends_ > 0; --pending_sends_) {
      mesh_->Await(
          {.buffer = buffer_.get(), .is_send = true, .peers = {&peer_, 1}, .deadline = deadline});
    }
  }

 private:
  Mesh* const mesh_;
  const int peer_;
  const std::unique_ptr<UnboundBuffer> buffer_;
  int pending_sends_ = 0;
  int pending_receives_ = 0;
};

Mesh::Mesh(const Meeting& meeting, const std::string& address)
    : Transport(meeting.rank(), meeting.size()),
      timer_([this] { EndLateWait(); }),
      heartbeat_timeout_(meeting.options.heartbeat_timeout),
      device_(CreateDevice(address)),
      context_(std::dynamic_pointer_cast<gloo::transport::tcp::Context>(
          device_->createContext(rank(), size()))),
      stop_event_(OpenEvent()),
      links_(size(), Link::kNone),
      watch_slot_(kFirstWatchSlot) {
  loop_.Attach(*device_);
  timer_.Attach(*device_);
  // Of no use, but not set otherwise.
  context_->setTimeout(std::chrono::seconds(30));
  connector_.emplace(
      meeting, address, device_.get(), &loop_, [this](int peer) { return Admit(peer); },
      [this](int peer, FileDescriptor connection) { Adopt(peer, std::move(connection)); });
  watcher_ = std::thread([this] { Watch(); });
}

// Connections end gently, unless they were closed before.
Mesh::~Mesh() {
  connector_.reset();
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    if (sentinel_ != nullptr) sentinel_->abortWaitRecv();
  }
  watcher_.join();
  AwaitSent();
  timer_.Cancel();
  loop_.Run([this] {
    for (AdoptedPair* const pair : Pairs()) pair->CloseGently();
  });
  // The turn of the loop that closed them may have had events left for them. In the next one it
  // has none, and they may go.
  loop_.Run([] {});
  loop_.Hurry();
}

void Mesh::Stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_event_.get(), &one, sizeof one);
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  InterruptIfHopeless();
}

void Mesh::Close() {
  connector_->StopListening();
  loop_.Run([this] {
    closed_ = true;
    for (AdoptedPair* const pair : Pairs()) pair->close();
  });
}

std::optional<int> Mesh::FindLost(std::span<const int> peers) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(peers, [this](int peer) { return links_[peer] == Link::kLost; });
  return found == peers.end() ? std::nullopt : std::optional(*found);
}

std::unique_ptr<Channel> Mesh::Open(int peer, void* data, size_t num_bytes, Deadline deadline) {
  Connect(peer, deadline);
  return std::make_unique<MeshChannel>(this, peer, context_->createUnboundBuffer(data, num_bytes));
}

int Mesh::ReceiveFromAny(std::span<const int> peers, Slot slot, void* data, size_t num_bytes,
                         Deadline deadline) {
  const auto buffer = context_->createUnboundBuffer(data, num_bytes);
  try {
    buffer->recv({peers.begin(), peers.end()}, static_cast<uint64_t>(slot), 0, num_bytes);
  } catch (const std::exception&) {
    // Somebody is lost: the wait finds out who.
  }
  int from = -1;
  Await({.buffer = buffer.get(), .peers = peers, .from = &from, .deadline = deadline});
  return from;
}

void Mesh::Connect(int peer, Deadline deadline) {
  while (true) {
    Link link;
    {
      std::lock_guard lock(mutex_);
      if (stopped_) throw Stopped();
      link = links_[peer];
      if (link == Link::kNone) links_[peer] = Link::kCalling;
    }
    if (link == Link::kOpen) return;
    if (link == Link::kLost) throw PeerTrouble(PeerTrouble::kLost, {peer});
    if (link != Link::kAnswering) Call(peer, deadline);
    AwaitLink(peer, deadline);
  }
}

void Mesh::Call(int peer, Deadline deadline) {
  try {
    FileDescriptor connection = connector_->Call(peer, stop_event_.get(), deadline);
    if (connection.is_open()) loop_.Run([&] { Adopt(peer, std::move(connection)); });
  } catch (const std::exception&) {
    std::lock_guard lock(mutex_);
    // The peer may have called meanwhile, and left.
    if (links_[peer] != Link::kCalling) return;
    links_[peer] = Link::kNone;
    throw;
  }
}

void Mesh::AwaitLink(int peer, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] {
    return stopped_ || links_[peer] == Link::kOpen || links_[peer] == Link::kLost;
  };
  const Deadline patience = std::min(deadline, DeadlineAfter(kCallAgainAfter));
  if (changed_.wait_until(lock, patience, is_over)) return;
  if (Clock::now() >= deadline) throw PeerTrouble(PeerTrouble::kTimedOut, {peer});
}

bool Mesh::Admit(int peer) {
  std::lock_guard lock(mutex_);
  const Link link = links_[peer];
  const bool admitted = link == Link::kNone || (link == Link::kCalling && peer > rank());
  if (admitted) links_[peer] = Link::kAnswering;
  return admitted;
}

void Mesh::Adopt(int peer, FileDescriptor connection) {
  Link link = Link::kLost;
  KeepAlive(connection.get(), heartbeat_timeout_);
  try {
    auto pair =
        std::make_unique<AdoptedPair>(context_.get(), device_.get(), peer, std::move(connection));
    if (closed_) pair->close();
    context_->getPair(peer) = std::move(pair);
    link = Link::kOpen;
  } catch (const std::exception&) {
    // It broke at once.
  }
  std::lock_guard lock(mutex_);
  links_[peer] = link;
  if (link == Link::kOpen && sentinel_ != nullptr) PostSentinelTo(peer);
  changed_.notify_all();
}

std::vector<AdoptedPair*> Mesh::Pairs() const {
  std::vector<AdoptedPair*> pairs;
  for (int peer = 0; peer < size(); ++peer) {
    auto* const pair = static_cast<AdoptedPair*>(context_->getPair(peer).get());
    if (pair != nullptr) pairs.push_back(pair);
  }
  return pairs;
}

void Mesh::AwaitSent() const {
  const Deadline deadline = DeadlineAfter(kLongestFarewell);
  for (AdoptedPair* const pair : Pairs()) {
    while (pair->HasUnsent() && Clock::now() < deadline) std::this_thread::sleep_for(kGlance);
  }
}

bool Mesh::Await(const Pending& pending) {
  Outcome outcome = Outcome::kInterrupted;
  std::optional<int> lost;
  // An interruption may have been meant for an earlier wait, which was over by then.
  while (outcome == Outcome::kInterrupted && !lost) {
    BeginWait(pending);
    outcome = WaitOnce(pending.buffer, pending.is_send, pending.from);
    EndWait();
    if (outcome == Outcome::kDone) return true;
    if (Clock::now() >= pending.deadline) {
      throw PeerTrouble(PeerTrouble::kTimedOut, {pending.peers.begin(), pending.peers.end()});
    }
    lost = FindLost(pending.peers);
    if (!lost && FindLost(pending.needed)) return false;
  }
  // What had arrived before the peer was lost counts: it may have left in good order.
  if (WaitOnce(pending.buffer, pending.is_send, pending.from, milliseconds(1)) == Outcome::kDone) {
    return true;
  }
  ThrowLost(lost.value_or(pending.peers.front()));
}

void Mesh::BeginWait(const Pending& pending) {
  std::lock_guard lock(mutex_);
  if (stopped_) throw Stopped();
  waiting_ = pending;
  InterruptIfHopeless();
  if (pending.deadline >= alarm_) return;
  alarm_ = pending.deadline;
  timer_.Set(alarm_);
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

bool Mesh::IsAnyLost(std::span<const int> peers) const {
  return std::ranges::any_of(peers, [this](int peer) { return links_[peer] == Link::kLost; });
}

void Mesh::InterruptIfHopeless() {
  if (waiting_.buffer == nullptr) return;
  if (stopped_ || IsAnyLost(waiting_.peers) || IsAnyLost(waiting_.needed)) Interrupt();
}

void Mesh::EndLateWait() {
  std::lock_guard lock(mutex_);
  alarm_ = Deadline::max();
  if (waiting_.buffer == nullptr) return;
  if (Clock::now() >= waiting_.deadline) return Interrupt();
  alarm_ = waiting_.deadline;
  timer_.Set(alarm_);
}

void Mesh::Interrupt() {
  if (waiting_.is_send) {
    waiting_.buffer->abortWaitSend();
  } else {
    waiting_.buffer->abortWaitRecv();
  }
}

// A connection that breaks fails the receives that wait on it, among them the sentinel's.
void Mesh::Watch() {
  while (true) {
    UnboundBuffer* sentinel = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (ending_) return;
      sentinel_ = context_->createUnboundBuffer(nullptr, 0);
      sentinel = sentinel_.get();
      ++watch_slot_;
      for (int peer = 0; peer < size(); ++peer) {
        if (links_[peer] == Link::kOpen) PostSentinelTo(peer);
      }
      InterruptIfHopeless();
    }
    WaitOnce(sentinel, false, nullptr);
  }
}

void Mesh::PostSentinelTo(int peer) {
  try {
    sentinel_->recv(peer, watch_slot_, 0, 0);
  } catch (const std::exception&) {
    links_[peer] = Link::kLost;
  }
}

}  // namespace ddp
