#include "ddp/checkpoint/broadcast.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddp/checkpoint/checkpoint_state.h"

namespace ddp {
namespace {

using Json = nlohmann::json;

// Names, dtypes and shapes: {"model": [["fc.weight", 0, [10, 784]], ...], ...}.
std::string TensorsText(const Checkpoint& checkpoint) {
  Json json = Json::object();
  for (const auto& [group, tensors] : checkpoint.tensors) {
    Json& list = json[group] = Json::array();
    for (const auto& [name, tensor] : tensors) {
      const auto dims = tensor.shape().dims();
      list.push_back(
          {name, static_cast<int>(tensor.dtype()), std::vector<int64_t>(dims.begin(), dims.end())});
    }
  }
  return json.dump();
}

// Tensors like those that the text describes.
void AddTensors(const std::string& text, Checkpoint& checkpoint) {
  const Json json = Json::parse(text);
  for (const auto& [group, list] : json.items()) {
    auto& tensors = checkpoint.tensors[group];
    for (const Json& entry : list) {
      const auto dtype = static_cast<ops::DType>(entry[1].get<int>());
      const ops::Shape shape(entry[2].get<std::vector<int64_t>>());
      tensors.push_back({entry[0], ops::Tensor::Empty(shape, {.dtype = dtype})});
    }
  }
}

}  // namespace

Checkpoint BroadcastCheckpoint(ProcessGroup& group, const Checkpoint& checkpoint) {
  const bool is_source = group.rank() == 0;
  const std::string state = group.ExchangeBlobs(is_source ? StateText(checkpoint) : "")[0];
  const std::string tensors = group.ExchangeBlobs(is_source ? TensorsText(checkpoint) : "")[0];
  Checkpoint result = checkpoint;
  if (!is_source) {
    result = ParseState(state);
    AddTensors(tensors, result);
  }
  // One after the other: large ones need no second buffer, and all ranks have the same ones.
  for (const auto& [name, list] : result.tensors) {
    for (const auto& [tensor_name, tensor] : list) {
      if (tensor.num_elements() > 0) group.Broadcast(BufferOf(tensor), /*root=*/0)->Wait();
    }
  }
  return result;
}

}  // namespace ddp
