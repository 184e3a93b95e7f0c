#include "ddp/replicated/communication_hooks.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {
namespace {

[[noreturn]] void ThrowUnknown(std::string_view name) {
  throw std::invalid_argument(fmt::format(
      "no communication hook is called '{}'; there are none, fp16, bf16, int8, topk[:RATIO], "
      "powersgd[:RANK[:START]] and local[:PERIOD[:START]], and fp16, bf16, powersgd and, as the "
      "first, local go around another, as in fp16+powersgd:2",
      name));
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (size_t end; (end = text.find(separator)) != text.npos; text.remove_prefix(end + 1)) {
    pieces.push_back(text.substr(0, end));
  }
  pieces.push_back(text);
  return pieces;
}

// A name and the numbers behind it: "powersgd:2:1000".
class Words {
 public:
  explicit Words(std::string_view text) : words_(Split(text, ':')) {}

  // Whether it is this name, with at most so many numbers.
  bool Is(std::string_view name, size_t most_numbers) const {
    return words_[0] == name && words_.size() <= 1 + most_numbers;
  }
  // The i-th number behind the name; throws what isn't one.
  template <class T>
  T Number(size_t i, T otherwise) const {
    if (i >= words_.size()) return otherwise;
    const std::string_view word = words_[i];
    T value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) ThrowUnknown(word);
    return value;
  }

 private:
  const std::vector<std::string_view> words_;
};

}  // namespace

ChosenHook MakeHook(std::string_view name, int64_t first_step) {
  // From the innermost outwards.
  std::vector<std::string_view> names = Split(name, '+');
  ChosenHook chosen;
  chosen.hook = AllReduceGradients;
  for (size_t i = names.size(); i-- > 0;) {
    const Words words(names[i]);
    const bool innermost = i + 1 == names.size();
    CommunicationHook inner = std::move(chosen.hook);
    if (words.Is("none", 0) && names.size() == 1) {
      chosen.hook = std::move(inner);
    } else if (words.Is("fp16", 0)) {
      chosen.hook = CompressTo(ops::DType::kFloat16, std::move(inner));
    } else if (words.Is("bf16", 0)) {
      chosen.hook = CompressTo(ops::DType::kBFloat16, std::move(inner));
    } else if (words.Is("int8", 0) && innermost) {
      chosen.hook = QuantizeTo8Bits();
      chosen.remembers = true;
    } else if (words.Is("topk", 1) && innermost) {
      chosen.hook = TopK(words.Number(1, 0.01));
      chosen.remembers = true;
    } else if (words.Is("powersgd", 2)) {
      PowerSgdOptions options{.first_step = first_step};
      options.matrix_approximation_rank = words.Number(1, options.matrix_approximation_rank);
      options.start_step = words.Number(2, options.start_step);
      chosen.hook = PowerSgd(options, std::move(inner));
      chosen.remembers = true;
    } else if (words.Is("local", 2) && i == 0) {
      const int64_t start = words.Number<int64_t>(2, 100);
      const int64_t period = words.Number<int64_t>(1, PeriodicAveragerOptions().period);
      if (period < 1) ThrowUnknown(names[i]);
      chosen.hook = LocalSgd({.start_step = start, .first_step = first_step}, std::move(inner));
      chosen.averaging = {.period = period, .warm_up_steps = start, .first_step = first_step};
    } else {
      ThrowUnknown(name);
    }
  }
  return chosen;
}

}  // namespace ddp
