#include "launch/models/weights.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ddp/checkpoint/safetensors.h"
#include "launch/models/gpt.h"
#include "launch/models/gpt_weights.h"

namespace launch {

void LoadWeights(const std::string& path, ops::nn::Module& model) {
  if (const auto* const gpt = dynamic_cast<const Gpt*>(&model)) return LoadGptWeights(path, *gpt);
  std::map<std::string, ops::DType, std::less<>> dtypes;
  for (const auto& [name, tensor] : model.StateDict()) dtypes[name] = tensor.dtype();
  std::vector<ops::NamedTensor> weights = ddp::ReadSafetensors(path);
  for (auto& [name, tensor] : weights) {
    const auto wanted = dtypes.find(name);
    if (wanted == dtypes.end()) continue;
    if (IsFloating(tensor.dtype()) && IsFloating(wanted->second))
      tensor = tensor.To(wanted->second);
  }
  try {
    model.LoadStateDict(weights);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("'{}' doesn't fit the model: {}", path, error.what()));
  }
}

}  // namespace launch
