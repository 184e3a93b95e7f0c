#include "ddp/collectives/gloo/call.h"

#include <fmt/format.h>

namespace ddp::gloo_backend {

std::string Describe(const Call& call) {
  const Call ours;
  if (call.magic != ours.magic) return "something that another version calls";
  const auto data = [&] { return fmt::format("{}[{}]", Name(call.dtype), call.num_elements); };
  switch (call.operation) {
    case Operation::kJoin:
      return "joining the group";
    case Operation::kAllReduce:
      return fmt::format("all_reduce #{} ({}, {})", call.sequence_number, data(),
                         Name(call.reduce_op));
    case Operation::kBroadcast:
      return fmt::format("broadcast #{} ({}, from rank {})", call.sequence_number, data(),
                         call.root);
    case Operation::kAllGather:
      return fmt::format("all_gather #{} ({})", call.sequence_number, data());
    case Operation::kBarrier:
      return fmt::format("barrier #{}", call.sequence_number);
    case Operation::kExchangeBlobs:
      return fmt::format("exchange_blobs #{}", call.sequence_number);
  }
  return "an unknown operation";
}

}  // namespace ddp::gloo_backend
