#include "ddp/collectives/gloo/operations.h"

#include <cstring>

#include "ddp/collectives/gloo/direct_all_reduce.h"
#include "ddp/collectives/reduce.h"

namespace ddp::gloo_backend {
namespace {

bool IsSmall(const Buffer& buffer) { return buffer.num_bytes() <= CallExchange::kMaxPayloadBytes; }

std::byte* BytesOf(const Buffer& buffer) { return static_cast<std::byte*>(buffer.data); }

std::span<const std::byte> SpanOf(const Buffer& buffer) {
  return {BytesOf(buffer), static_cast<size_t>(buffer.num_bytes())};
}

void CopyInto(std::byte* target, std::span<const std::byte> bytes) {
  if (!bytes.empty()) std::memmove(target, bytes.data(), bytes.size());
}

}  // namespace

std::byte* Scratch::Reserve(size_t num_bytes) {
  if (num_bytes_ < num_bytes) {
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(num_bytes);
    num_bytes_ = num_bytes;
  }
  return bytes_.get();
}

void Operations::AllReduce(const Call& call, const Buffer& buffer, Deadline deadline) {
  if (IsSmall(buffer)) {
    AllReduceSmall(call, buffer, deadline);
  } else {
    AllReduceLarge(call, buffer, deadline);
  }
}

// Everyone gets everything and sums up alone: one message each way.
void Operations::AllReduceSmall(const Call& call, const Buffer& buffer, Deadline deadline) {
  calls_.Exchange(call, SpanOf(buffer), deadline);
  std::vector<const void*> inputs(mesh_->size(), buffer.data);
  for (const int peer : Peers()) inputs[peer] = calls_.Payload(peer).data();
  Reduce(call.reduce_op, buffer.dtype, inputs, buffer.data, buffer.num_elements);
  calls_.Finish(deadline);
}

void Operations::AllReduceLarge(const Call& call, const Buffer& buffer, Deadline deadline) {
  const DirectAllReduce::Layout layout(buffer, mesh_->size());
  DirectAllReduce work(mesh_, buffer, call.reduce_op, layout,
                       scratch_.Reserve(layout.scratch_bytes()));
  // The receives are announced before the call, so a peer that has seen the call can send at once.
  work.PostReceives();
  calls_.Exchange(call, {}, deadline);
  work.Run(deadline);
  calls_.Finish(deadline);
}

void Operations::Broadcast(const Call& call, const Buffer& buffer, Deadline deadline) {
  const bool is_root = mesh_->rank() == call.root;
  if (IsSmall(buffer)) {
    calls_.Exchange(call, is_root ? SpanOf(buffer) : std::span<const std::byte>(), deadline);
    if (!is_root) CopyInto(BytesOf(buffer), calls_.Payload(call.root));
    calls_.Finish(deadline);
    return;
  }
  std::vector<Channel> channels;
  for (const int peer : is_root ? Peers() : std::vector<int>{call.root}) {
    channels.push_back(mesh_->Open(peer, buffer.data, buffer.num_bytes()));
    if (!is_root) channels.back().Receive(kGather, 0, buffer.num_bytes());
  }
  calls_.Exchange(call, {}, deadline);
  for (Channel& channel : channels) {
    if (is_root) channel.Send(kGather, 0, buffer.num_bytes());
  }
  for (Channel& channel : channels) {
    channel.AwaitReceives(deadline);
    channel.AwaitSends(deadline);
  }
  calls_.Finish(deadline);
}

void Operations::AllGather(const Call& call, const Buffer& input, const Buffer& output,
                           Deadline deadline) {
  if (IsSmall(input)) {
    AllGatherSmall(call, input, output, deadline);
  } else {
    AllGatherLarge(call, input, output, deadline);
  }
}

void Operations::AllGatherSmall(const Call& call, const Buffer& input, const Buffer& output,
                                Deadline deadline) {
  calls_.Exchange(call, SpanOf(input), deadline);
  CopyInto(BytesOf(output) + mesh_->rank() * input.num_bytes(), SpanOf(input));
  for (const int peer : Peers()) {
    CopyInto(BytesOf(output) + peer * input.num_bytes(), calls_.Payload(peer));
  }
  calls_.Finish(deadline);
}

void Operations::AllGatherLarge(const Call& call, const Buffer& input, const Buffer& output,
                                Deadline deadline) {
  const int64_t block_bytes = input.num_bytes();
  // The input may be this rank's block of the output; it is sent from there.
  std::byte* const own = BytesOf(output) + mesh_->rank() * block_bytes;
  CopyInto(own, SpanOf(input));
  std::vector<Channel> channels;
  for (const int peer : Peers()) {
    channels.push_back(mesh_->Open(peer, output.data, output.num_bytes()));
    channels.back().Receive(kGather, peer * block_bytes, block_bytes);
  }
  calls_.Exchange(call, {}, deadline);
  for (Channel& channel : channels) {
    channel.Send(kGather, mesh_->rank() * block_bytes, block_bytes);
  }
  for (Channel& channel : channels) {
    channel.AwaitReceives(deadline);
    channel.AwaitSends(deadline);
  }
  calls_.Finish(deadline);
}

void Operations::Barrier(const Call& call, Deadline deadline) {
  calls_.Exchange(call, {}, deadline);
  calls_.Finish(deadline);
}

// The sizes go first, with as much of the blobs as fits beside them.
std::vector<std::string> Operations::ExchangeBlobs(const Call& call, const std::string& mine,
                                                   Deadline deadline) {
  std::string head(sizeof(int64_t), '\0');
  const int64_t my_size = static_cast<int64_t>(mine.size());
  std::memcpy(head.data(), &my_size, sizeof my_size);
  head += mine.substr(0, CallExchange::kMaxPayloadBytes - head.size());
  calls_.Exchange(call, std::as_bytes(std::span(head)), deadline);

  const size_t head_size = head.size() - sizeof(int64_t);
  std::vector<std::string> blobs(mesh_->size());
  blobs[mesh_->rank()] = mine;
  std::vector<Channel> channels;
  for (const int peer : Peers()) {
    const std::span<const std::byte> payload = calls_.Payload(peer);
    const auto* const text = reinterpret_cast<const char*>(payload.data());
    int64_t size = 0;
    std::memcpy(&size, text, sizeof size);
    std::string& blob = blobs[peer];
    blob.assign(text + sizeof size, payload.size() - sizeof size);
    const size_t have = blob.size();
    blob.resize(size);
    channels.push_back(mesh_->Open(peer, blob.data(), blob.size()));
    if (have < blob.size()) channels.back().Receive(kGather, have, blob.size() - have);
    if (head_size < mine.size()) {
      // Sending only reads.
      channels.push_back(mesh_->Open(peer, const_cast<char*>(mine.data()), mine.size()));
      channels.back().Send(kGather, head_size, mine.size() - head_size);
    }
  }
  for (Channel& channel : channels) {
    channel.AwaitReceives(deadline);
    channel.AwaitSends(deadline);
  }
  calls_.Finish(deadline);
  return blobs;
}

std::vector<int> Operations::Peers() const {
  std::vector<int> peers;
  for (int rank = 0; rank < mesh_->size(); ++rank) {
    if (rank != mesh_->rank()) peers.push_back(rank);
  }
  return peers;
}

}  // namespace ddp::gloo_backend
