#include "ddp/collectives/messages/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddp {
namespace {

// What a sender says about a message before the receiver lets it come.
struct Offer {
  uint32_t magic = 0x64647003;  // changes with the format
  ops::DType dtype = ops::DType::kFloat32;
  uint8_t unused[3] = {};
  int64_t num_elements = 0;

  friend bool operator==(const Offer&, const Offer&) = default;
};

Offer OfferOf(const Buffer& buffer) {
  return {.dtype = buffer.dtype, .num_elements = buffer.num_elements};
}

std::string Describe(const Offer& offer) {
  if (offer.magic != Offer().magic) return "something that another version sends";
  return fmt::format("{}[{}]", ops::Name(offer.dtype), offer.num_elements);
}

class MessageExchange {
 public:
  MessageExchange(Transport* transport, Deadline deadline)
      : transport_(transport), deadline_(deadline) {}

  void Run(std::span<const Operation> operations) {
    for (const Operation& operation : operations) {
      if (operation.kind == OperationKind::kSend) {
        Send(operation.input, operation.root);
      } else {
        Expect(operation.output, operation.root);
      }
    }
    // Whose message comes first can't be known.
    while (!expected_.empty()) ReceiveNext();
    for (const auto& channel : channels_) {
      channel->AwaitReceives(deadline_);
      channel->AwaitSends(deadline_);
    }
  }

 private:
  struct Expected {
    Buffer buffer;
    Channel* channel;
  };

  void Send(const Buffer& buffer, int peer) {
    offers_.push_back(OfferOf(buffer));
    Open(peer, &offers_.back(), sizeof(Offer)).Send(Slot::kOffer, 0, sizeof(Offer));
    const size_t num_bytes = buffer.num_bytes();
    if (num_bytes > 0) Open(peer, buffer.data, num_bytes).Send(Slot::kPeerToPeer, 0, num_bytes);
  }

  void Expect(const Buffer& buffer, int peer) {
    expected_[peer].push_back({buffer, &Open(peer, buffer.data, buffer.num_bytes())});
  }

  void ReceiveNext() {
    std::vector<int> peers;
    for (const auto& [peer, messages] : expected_) peers.push_back(peer);
    Offer offer;
    const int peer =
        transport_->ReceiveFromAny(peers, Slot::kOffer, &offer, sizeof offer, deadline_);
    std::deque<Expected>& messages = expected_[peer];
    Receive(messages.front(), offer);
    messages.pop_front();
    if (messages.empty()) expected_.erase(peer);
  }

  void Receive(const Expected& expected, const Offer& offer) {
    const Offer wanted = OfferOf(expected.buffer);
    const int peer = expected.channel->peer();
    if (offer != wanted) {
      throw Disagreement(peer, fmt::format("rank {} sent {} to rank {}, which received {}", peer,
                                           Describe(offer), transport_->rank(), Describe(wanted)));
    }
    const size_t num_bytes = expected.buffer.num_bytes();
    if (num_bytes > 0) expected.channel->Receive(Slot::kPeerToPeer, 0, num_bytes);
  }

  Channel& Open(int peer, void* data, size_t num_bytes) {
    return *channels_.emplace_back(transport_->Open(peer, data, num_bytes, deadline_));
  }

  Transport* const transport_;
  const Deadline deadline_;
  std::deque<Offer> offers_;
  std::map<int, std::deque<Expected>> expected_;  // by peer, in order
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace

void ExchangeMessages(Transport* transport, std::span<const Operation> operations,
                      Deadline deadline) {
  MessageExchange(transport, deadline).Run(operations);
}

}  // namespace ddp
