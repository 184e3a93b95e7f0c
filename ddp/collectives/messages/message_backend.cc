#include "ddp/collectives/messages/message_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ddp/collectives/messages/direct_reduction.h"
#include "ddp/collectives/messages/point_to_point.h"
#include "ddp/collectives/reduce.h"
#include "ops/tensor/tensor.h"

namespace ddp {
namespace {

// What fits into a message beside the call; nothing where calls have many peers.
constexpr int64_t kMaxPayloadBytes = 8 << 10;

std::span<std::byte> BytesOf(const Buffer& buffer) {
  return {buffer.bytes(), static_cast<size_t>(buffer.num_bytes())};
}

std::span<std::byte> BytesOf(const Buffer& buffer, const Block& block) {
  const int64_t element_bytes = ops::SizeOf(buffer.dtype);
  return {buffer.bytes() + block.begin * element_bytes,
          static_cast<size_t>(block.num_elements * element_bytes)};
}

void CopyBytes(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

// Where what this rank sends to `peer` lies.
std::span<std::byte> SentTo(int peer, const Operation& operation, int rank, int size) {
  switch (operation.kind) {
    case OperationKind::kBroadcast:
      return rank == operation.root ? BytesOf(operation.output) : std::span<std::byte>();
    case OperationKind::kAllGather:
      return BytesOf(operation.input);
    case OperationKind::kGather:
      return peer == operation.root ? BytesOf(operation.input) : std::span<std::byte>();
    case OperationKind::kScatter:
      if (rank != operation.root) return {};
      [[fallthrough]];
    case OperationKind::kAllToAll:
      return BytesOf(operation.input, operation.InputBlock(peer, size));
    default:
      return {};
  }
}

// Where what `peer` sends to this rank goes.
std::span<std::byte> ReceivedFrom(int peer, const Operation& operation, int rank, int size) {
  switch (operation.kind) {
    case OperationKind::kBroadcast:
    case OperationKind::kScatter:
      return peer == operation.root ? BytesOf(operation.output) : std::span<std::byte>();
    case OperationKind::kGather:
      if (rank != operation.root) return {};
      [[fallthrough]];
    case OperationKind::kAllGather:
    case OperationKind::kAllToAll:
      return BytesOf(operation.output, operation.OutputBlock(peer, size));
    default:
      return {};
  }
}

// The part of the input that `owner` reduces, where everything fits beside the calls.
Block PartOf(int owner, const Operation& operation, int size) {
  if (operation.kind == OperationKind::kReduceScatter) return operation.InputBlock(owner, size);
  const bool owns = operation.kind == OperationKind::kAllReduce || owner == operation.root;
  return {0, owns ? operation.input.num_elements : 0};
}

std::vector<Transfer> NeighboursOf(const Transport& transport) {
  std::vector<Transfer> neighbours;
  if (transport.rank() > 0) neighbours.push_back({transport.rank() - 1});
  if (transport.rank() + 1 < transport.size()) neighbours.push_back({transport.rank() + 1});
  return neighbours;
}

}  // namespace

MessageBackend::MessageBackend(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)),
      in_chain_(transport_->size() > kMaxDirectRanks),
      neighbours_(NeighboursOf(*transport_)),
      max_payload_bytes_(in_chain_ ? 0 : kMaxPayloadBytes),
      calls_(transport_.get(), max_payload_bytes_),
      chain_(transport_.get()) {}

void MessageBackend::Run(const Operation& operation, const Call& call, Deadline deadline) {
  if (in_chain_) {
    calls_.Exchange(call, neighbours_, deadline);
    calls_.Finish(neighbours_, deadline);
  }
  if (in_chain_ && Chain::Does(operation.kind)) {
    chain_.Run(operation, deadline);
  } else if (!Reduces(operation.kind)) {
    MoveBlocks(operation, call, deadline);
  } else if (LargestPart(operation) <= max_payload_bytes_) {
    ReduceSmall(operation, call, deadline);
  } else {
    ReduceLarge(operation, call, deadline);
  }
}

void MessageBackend::Exchange(std::span<const Operation> operations, Deadline deadline) {
  ExchangeMessages(transport_.get(), operations, deadline);
}

ops::Memory MessageBackend::Allocate(int64_t num_bytes) {
  return ops::AllocateMemory(num_bytes, ops::Device::Cpu());
}

void MessageBackend::MoveBlocks(const Operation& operation, const Call& call, Deadline deadline) {
  const int rank = transport_->rank(), size = transport_->size();
  std::vector<Transfer> transfers = PeersIn(operation);
  for (Transfer& transfer : transfers) {
    transfer.sent = SentTo(transfer.peer, operation, rank, size);
    transfer.received = ReceivedFrom(transfer.peer, operation, rank, size);
  }
  calls_.Connect(transfers, deadline);
  std::vector<std::unique_ptr<Channel>> channels;
  const auto open = [&](int peer, std::span<const std::byte> bytes) {
    // Sending only reads.
    auto* const data = const_cast<std::byte*>(bytes.data());
    channels.push_back(transport_->Open(peer, data, bytes.size(), deadline));
    return channels.back().get();
  };
  // The receives are announced before the call, so a peer that has seen the call can send at once.
  for (const Transfer& transfer : transfers) {
    if (calls_.Carries(transfer.received)) continue;
    open(transfer.peer, transfer.received)->Receive(Slot::kGather, 0, transfer.received.size());
  }
  calls_.Exchange(call, transfers, deadline);
  for (const Transfer& transfer : transfers) {
    if (calls_.Carries(transfer.sent)) continue;
    open(transfer.peer, transfer.sent)->Send(Slot::kGather, 0, transfer.sent.size());
  }
  CopyBytes(SentTo(rank, operation, rank, size), ReceivedFrom(rank, operation, rank, size));
  for (const auto& channel : channels) {
    channel->AwaitReceives(deadline);
    channel->AwaitSends(deadline);
  }
  calls_.Finish(transfers, deadline);
}

// Each owner of a part gets it from everyone and reduces it alone: one message each way.
void MessageBackend::ReduceSmall(const Operation& operation, const Call& call, Deadline deadline) {
  const int rank = transport_->rank(), size = transport_->size();
  const Block own = PartOf(rank, operation, size);
  const std::span<std::byte> own_input = BytesOf(operation.input, own);
  std::byte* const scratch = scratch_.Reserve(size * own_input.size());
  std::vector<const void*> inputs(size, own_input.data());
  std::vector<Transfer> transfers = PeersIn(operation);
  for (Transfer& transfer : transfers) {
    const int peer = transfer.peer;
    transfer.sent = BytesOf(operation.input, PartOf(peer, operation, size));
    transfer.received = {scratch + peer * own_input.size(), own_input.size()};
    inputs[peer] = transfer.received.data();
  }
  calls_.Exchange(call, transfers, deadline);
  if (own.num_elements > 0) {
    Reduce(operation.reduction.op, operation.input.dtype, inputs, {&operation.output.data, 1},
           own.num_elements);
  }
  calls_.Finish(transfers, deadline);
}

void MessageBackend::ReduceLarge(const Operation& operation, const Call& call, Deadline deadline) {
  const std::vector<Transfer> transfers = PeersIn(operation);
  calls_.Connect(transfers, deadline);
  DirectReduction work(transport_.get(), operation, &scratch_, deadline);
  work.PostReceives();
  calls_.Exchange(call, transfers, deadline);
  work.Run(deadline);
  calls_.Finish(transfers, deadline);
}

std::vector<Transfer> MessageBackend::PeersIn(const Operation& operation) const {
  const bool is_star =
      operation.kind == OperationKind::kGather || operation.kind == OperationKind::kScatter;
  std::vector<Transfer> peers;
  for (int peer = 0; peer < transport_->size(); ++peer) {
    const bool is_idle =
        in_chain_ && is_star && peer != operation.root && transport_->rank() != operation.root;
    if (peer != transport_->rank() && !is_idle) peers.push_back({peer});
  }
  return peers;
}

int64_t MessageBackend::LargestPart(const Operation& operation) const {
  int64_t num_elements = 0;
  for (int owner = 0; owner < transport_->size(); ++owner) {
    const Block part = PartOf(owner, operation, transport_->size());
    num_elements = std::max(num_elements, part.num_elements);
  }
  return num_elements * ops::SizeOf(operation.input.dtype);
}

}  // namespace ddp
