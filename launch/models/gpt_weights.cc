#include "launch/models/gpt_weights.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ddp/checkpoint/safetensors.h"
#include "ops/autograd/rearrange.h"
#include "ops/tensor/random.h"

namespace launch {
namespace {

using ops::Tensor;

[[noreturn]] void Fail(const std::string& path, const std::string& why) {
  throw std::invalid_argument(fmt::format("'{}' holds no GPT-2: {}", path, why));
}

struct Renaming {
  std::string_view theirs, ours;
};
// Of the parts of a block, and of the rest.
constexpr Renaming kBlockNames[] = {{"ln_1", "ln1"},         {"attn.c_attn", "qkv"},
                                    {"attn.c_proj", "proj"}, {"ln_2", "ln2"},
                                    {"mlp.c_fc", "fc"},      {"mlp.c_proj", "out"}};
constexpr std::string_view kPrefix = "transformer.", kBlocks = "h.", kLastNorm = "ln_f.";

// Our name of the file's tensor; "" for one that is no parameter.
std::string OurName(std::string_view name) {
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (name.starts_with(kLastNorm)) return "lnf." + std::string(name.substr(kLastNorm.size()));
  if (!name.starts_with(kBlocks)) return std::string(name);
  const size_t dot = name.find('.', kBlocks.size());
  if (dot == name.npos) return std::string(name);
  const std::string_view index = name.substr(kBlocks.size(), dot - kBlocks.size());
  const std::string_view rest = name.substr(dot + 1);
  if (rest == "attn.bias" || rest == "attn.masked_bias") return "";
  for (const auto& [theirs, ours] : kBlockNames) {
    if (rest.starts_with(theirs) && rest.substr(theirs.size()).starts_with('.')) {
      return fmt::format("blocks.{}.{}{}", index, ours, rest.substr(theirs.size()));
    }
  }
  return std::string(name);
}

// Parameters by our names, with the file's names for messages.
class File {
 public:
  explicit File(const std::string& path)
      : path_(path), metadata_(ddp::ReadSafetensorsMetadata(path)) {
    for (const auto& [name, tensor] : ddp::ReadSafetensors(path)) {
      const std::string ours = OurName(name);
      if (!ours.empty()) tensors_[ours] = {name, tensor};
    }
    RequireTiedHead();
  }

  const std::string& path() const { return path_; }
  bool Has(const std::string& name) const { return tensors_.contains(name); }

  const Tensor& Matrix(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) Fail(path_, fmt::format("it lacks '{}'", name));
    if (found->second.tensor.shape().rank() != 2) {
      Fail(path_, fmt::format("'{}' is {}, expected a matrix", found->second.name,
                              found->second.tensor.Describe()));
    }
    return found->second.tensor;
  }

  std::optional<int64_t> Number(const std::string& key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) return std::nullopt;
    int64_t value = 0;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      Fail(path_, fmt::format("its metadata says {}={}, expected a number", key, text));
    }
    return value;
  }

  // Linear layers' matrices are [in, out] where Conv1D layers wrote the file.
  bool IsTransposed(int64_t width) const {
    return Matrix("blocks.0.qkv.weight").shape() == ops::Shape{width, 3 * width};
  }

  // The values of a parameter, in float32 and in its shape.
  Tensor Values(const ops::NamedTensor& parameter, bool transposed) const {
    const auto found = tensors_.find(parameter.name);
    if (found == tensors_.end()) Fail(path_, fmt::format("it lacks '{}'", parameter.name));
    Tensor values = found->second.tensor;
    const bool is_linear = parameter.name.starts_with("blocks.") && values.shape().rank() == 2;
    if (is_linear && transposed) values = ops::Transpose(values, 0, 1);
    if (values.shape() != parameter.tensor.shape()) {
      Fail(path_,
           fmt::format("'{}' is {}, expected {}", found->second.name,
                       found->second.tensor.Describe(), parameter.tensor.shape().ToString()));
    }
    return values;
  }

  // Throws for a tensor that no parameter of the model has the name of.
  void RequireKnown(const std::vector<ops::NamedTensor>& parameters) const {
    std::map<std::string_view, bool> known;
    for (const auto& parameter : parameters) known[parameter.name] = true;
    for (const auto& [name, entry] : tensors_) {
      if (!known.contains(name)) Fail(path_, fmt::format("'{}' is none of its", entry.name));
    }
  }

 private:
  void RequireTiedHead() {
    const auto head = tensors_.find("lm_head.weight");
    if (head == tensors_.end()) return;
    const Tensor& table = Matrix("wte.weight");
    const Tensor& weight = head->second.tensor;
    if (weight.shape() != table.shape() || weight.dtype() != table.dtype() ||
        std::memcmp(weight.raw_data(), table.raw_data(), table.num_bytes()) != 0) {
      Fail(path_, "its lm_head.weight isn't its wte.weight, as a tied head is");
    }
    tensors_.erase(head);
  }

  const std::string path_;
  const ddp::SafetensorsMetadata metadata_;
  std::map<std::string, ops::NamedTensor> tensors_;
};

int64_t HeadsOf(const File& file, std::optional<int64_t> heads, int64_t width) {
  if (!heads) heads = file.Number("heads");
  if (!heads) heads = file.Number("n_head");
  return heads.value_or(std::max<int64_t>(1, width / 64));
}

GptOptions OptionsOf(const File& file, std::optional<int64_t> heads) {
  const Tensor& tokens = file.Matrix("wte.weight");
  int64_t layers = 0;
  while (file.Has(fmt::format("blocks.{}.ln1.weight", layers))) ++layers;
  const GptOptions options = {.layers = layers,
                              .width = tokens.dim(1),
                              .heads = HeadsOf(file, heads, tokens.dim(1)),
                              .context = file.Matrix("wpe.weight").dim(0),
                              .vocab = tokens.dim(0)};
  try {
    CheckGptOptions(options);
  } catch (const std::invalid_argument& e) {
    Fail(file.path(), e.what());
  }
  return options;
}

}  // namespace

std::unique_ptr<Gpt> LoadGpt(const std::string& path, std::optional<int64_t> heads) {
  const File file(path);
  const GptOptions options = OptionsOf(file, heads);
  ops::Generator generator;
  auto model = std::make_unique<Gpt>(options, generator);
  const std::vector<ops::NamedTensor> parameters = model->Parameters();
  file.RequireKnown(parameters);
  const bool transposed = file.IsTransposed(options.width);
  for (const ops::NamedTensor& parameter : parameters) {
    parameter.tensor.CopyFrom(file.Values(parameter, transposed));
  }
  return model;
}

}  // namespace launch
