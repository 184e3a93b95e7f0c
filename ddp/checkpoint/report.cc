#include "ddp/checkpoint/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using ops::Tensor;

template <class Value>
std::string Listed(const char* title, const std::map<std::string, Value>& values) {
  std::string text = title;
  for (const char* separator = " "; const auto& [name, value] : values) {
    text += fmt::format("{}{} {}", separator, name, value);
    separator = ", ";
  }
  return text + "\n";
}

template <class Value>
std::string Line(const std::string& name, const Value& one, const Value& other) {
  return one == other ? "" : fmt::format("{}: {} and {}\n", name, one, other);
}

// Values of both under all names; the default for one that a side lacks.
template <class Value>
std::string MapDifferences(const std::string& prefix, std::map<std::string, Value> one,
                           std::map<std::string, Value> other) {
  for (const auto& [name, value] : one) other.try_emplace(name);
  for (const auto& [name, value] : other) one.try_emplace(name);
  std::string text;
  for (const auto& [name, value] : one) text += Line(prefix + name, value, other.at(name));
  return text;
}

// Of tensors of one shape and dtype.
std::string ElementDifferences(const Tensor& one, const Tensor& other) {
  const int64_t size = SizeOf(one.dtype());
  const std::vector<double> values = one.ToVector<double>(), others = other.ToVector<double>();
  int64_t count = 0;
  double largest = 0;
  for (int64_t i = 0; i < one.num_elements(); ++i) {
    if (std::memcmp(one.raw_data() + i * size, other.raw_data() + i * size, size) == 0) continue;
    ++count;
    largest = std::fmax(largest, std::abs(values[i] - others[i]));
  }
  if (count == 0) return "";
  return fmt::format("{} of {} elements, by at most {:.2g}", count, one.num_elements(), largest);
}

std::string TensorDifferences(const Tensor& one, const Tensor& other) {
  if (!other.defined()) return "only in the first";
  if (!one.defined()) return "only in the second";
  if (one.Describe() != other.Describe()) {
    return fmt::format("{} and {}", one.Describe(), other.Describe());
  }
  return ElementDifferences(one, other);
}

using Pairs = std::map<std::string, std::pair<Tensor, Tensor>>;

Pairs PairsOf(const Checkpoint& one, const Checkpoint& other) {
  Pairs pairs;
  for (const auto& [group, tensors] : one.tensors) {
    for (const auto& [name, tensor] : tensors) pairs[group + " " + name].first = tensor;
  }
  for (const auto& [group, tensors] : other.tensors) {
    for (const auto& [name, tensor] : tensors) pairs[group + " " + name].second = tensor;
  }
  return pairs;
}

}  // namespace

std::string Describe(const Checkpoint& checkpoint) {
  std::string text = fmt::format("step {}, epoch {}, {} samples of it\n", checkpoint.step,
                                 checkpoint.epoch, checkpoint.samples_in_epoch);
  text += Listed("counters:", checkpoint.counters);
  text += Listed("settings:", checkpoint.settings);
  for (const auto& [group, tensors] : checkpoint.tensors) {
    int64_t num_bytes = 0;
    size_t width = 0;
    for (const auto& [name, tensor] : tensors) {
      num_bytes += tensor.num_bytes();
      width = std::max(width, name.size());
    }
    text += fmt::format("{}: {} tensors, {} bytes\n", group, tensors.size(), num_bytes);
    for (const auto& [name, tensor] : tensors) {
      text += fmt::format("  {:<{}}  {}\n", name, width, tensor.Describe());
    }
  }
  return text;
}

std::string DescribeDifferences(const Checkpoint& one, const Checkpoint& other) {
  std::string text = Line("step", one.step, other.step);
  text += Line("epoch", one.epoch, other.epoch);
  text += Line("samples_in_epoch", one.samples_in_epoch, other.samples_in_epoch);
  text += MapDifferences("counter ", one.counters, other.counters);
  text += MapDifferences("setting ", one.settings, other.settings);
  for (const auto& [name, pair] : PairsOf(one, other)) {
    const std::string difference = TensorDifferences(pair.first, pair.second);
    if (!difference.empty()) text += fmt::format("{}: {}\n", name, difference);
  }
  return text;
}

}  // namespace ddp
