#include "launch/models/gpt_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
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

// 3 for "blocks.3.qkv.weight".
std::optional<int64_t> BlockOf(std::string_view name) {
  constexpr std::string_view kOurBlocks = "blocks.";
  if (!name.starts_with(kOurBlocks)) return std::nullopt;
  name.remove_prefix(kOurBlocks.size());
  int64_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool is_block = error == std::errc() && index >= 0 && end != name.data() + name.size();
  return is_block && *end == '.' ? std::optional(index) : std::nullopt;
}

// "a; b; c and 7 more".
std::string Listed(const std::vector<std::string>& items) {
  constexpr size_t kMost = 8;
  const size_t shown = std::min(kMost, items.size());
  std::string text = fmt::format("{}", fmt::join(items.begin(), items.begin() + shown, "; "));
  if (items.size() > shown) text += fmt::format(" and {} more", items.size() - shown);
  return text;
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

  // One more than the highest index of a block. The tensors bound it, so that a name can't ask for
  // a model that the file has no values for.
  int64_t NumBlocks() const {
    int64_t count = 0;
    for (const auto& [name, entry] : tensors_) {
      const std::optional<int64_t> index = BlockOf(name);
      if (index && *index < static_cast<int64_t>(tensors_.size())) {
        count = std::max(count, *index + 1);
      }
    }
    return count;
  }

  // Copies the values of all parameters, or throws with everything that keeps it from doing so.
  void CopyTo(const std::vector<ops::NamedTensor>& parameters) const {
    std::vector<std::string> misfits;
    std::set<std::string_view> known;
    for (const ops::NamedTensor& parameter : parameters) {
      known.insert(parameter.name);
      const std::string misfit = Misfit(parameter);
      if (!misfit.empty()) misfits.push_back(misfit);
    }
    for (const auto& [name, entry] : tensors_) {
      if (!known.contains(name)) misfits.push_back(fmt::format("'{}' is none of its", entry.name));
    }
    if (!misfits.empty()) Fail(path_, Listed(misfits));
    for (const auto& [name, tensor] : parameters) {
      const Tensor& values = tensors_.at(name).tensor;
      tensor.CopyFrom(IsTransposed(name) ? ops::Transpose(values, 0, 1) : values);
    }
  }

 private:
  // Blocks' matrices are [in, out] where Conv1D layers wrote the file. Some of them are square, so
  // that qkv's speaks for all: [width, 3 width].
  bool IsTransposed(const std::string& name) const {
    const auto qkv = tensors_.find("blocks.0.qkv.weight");
    if (!BlockOf(name) || qkv == tensors_.end()) return false;
    const ops::Shape& told = qkv->second.tensor.shape();
    return told.rank() == 2 && told.dim(1) == 3 * told.dim(0) &&
           tensors_.at(name).tensor.shape().rank() == 2;
  }

  // What is wrong with the file's values of a parameter; "" for nothing.
  std::string Misfit(const ops::NamedTensor& parameter) const {
    const auto found = tensors_.find(parameter.name);
    if (found == tensors_.end()) return fmt::format("it lacks '{}'", parameter.name);
    const Tensor& values = found->second.tensor;
    const ops::Shape& wanted = parameter.tensor.shape();
    const ops::Shape expected =
        IsTransposed(parameter.name) ? ops::Shape{wanted.dim(1), wanted.dim(0)} : wanted;
    if (values.shape() == expected && ops::IsFloating(values.dtype())) return "";
    return fmt::format("'{}' is {}, expected {} of floating point", found->second.name,
                       values.Describe(), expected.ToString());
  }

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

std::optional<int64_t> HeadsOf(const File& file) {
  const std::optional<int64_t> heads = file.Number("heads");
  return heads ? heads : file.Number("n_head");
}

GptOptions OptionsOf(const File& file, std::optional<int64_t> heads) {
  const Tensor& tokens = file.Matrix("wte.weight");
  if (!heads) heads = HeadsOf(file);
  const GptOptions options = {.layers = file.NumBlocks(),
                              .width = tokens.dim(1),
                              .heads = heads.value_or(std::max<int64_t>(1, tokens.dim(1) / 64)),
                              .context = file.Matrix("wpe.weight").dim(0),
                              .vocab = tokens.dim(0)};
  try {
    CheckGptOptions(options);
  } catch (const std::invalid_argument& e) {
    Fail(file.path(),
         fmt::format("{} (heads are the caller's, the metadata's or width / 64)", e.what()));
  }
  return options;
}

}  // namespace

std::unique_ptr<Gpt> LoadGpt(const std::string& path, std::optional<int64_t> heads) {
  const File file(path);
  const GptOptions options = OptionsOf(file, heads);
  ops::Generator generator;
  auto model = std::make_unique<Gpt>(options, generator);
  file.CopyTo(model->Parameters());
  return model;
}

void LoadGptWeights(const std::string& path, const Gpt& model) {
  const File file(path);
  const int64_t heads = model.options().heads;
  if (const int64_t told = HeadsOf(file).value_or(heads); told != heads) {
    Fail(path, fmt::format("its metadata say {} heads, the model has {}", told, heads));
  }
  file.CopyTo(model.Parameters());
}

}  // namespace launch
