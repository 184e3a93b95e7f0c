#include "ddp/collectives/arguments.h"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "ddp/collectives/reduce.h"

namespace ddp {
namespace {

using Kind = OperationKind;
using Counts = std::vector<int64_t>;

template <class... Args>
[[noreturn]] void Throw(const Operation& operation, fmt::format_string<Args...> format,
                        Args&&... args) {
  throw std::invalid_argument(fmt::format("{}: {}", Name(operation.kind),
                                          fmt::format(format, std::forward<Args>(args)...)));
}

void CheckBuffer(const Operation& operation, const Buffer& buffer) {
  if (!buffer.device.is_cpu()) {
    Throw(operation, "this group reaches CPU memory only, got {}", Describe(buffer));
  }
  if (buffer.num_elements < 0) {
    Throw(operation, "a buffer with {} elements", buffer.num_elements);
  }
  if (buffer.data == nullptr && buffer.num_elements > 0) {
    Throw(operation, "a null pointer for {}", Describe(buffer));
  }
}

void CheckRank(const Operation& operation, const char* what, int rank, int size) {
  if (rank < 0 || rank >= size) {
    Throw(operation, "{} {} is not one of the ranks 0 to {}", what, rank, size - 1);
  }
}

void CheckCounts(const Operation& operation, const Counts& counts, int size) {
  if (counts.empty()) return;
  if (static_cast<int>(counts.size()) != size) {
    Throw(operation, "{} counts for {} ranks", counts.size(), size);
  }
  for (const int64_t count : counts) {
    if (count < 0) Throw(operation, "a count of {} elements", count);
  }
}

void CheckOwnBlock(const Operation& operation, const Counts& counts, const Buffer& block,
                   int rank) {
  if (counts.empty() || block.num_elements == counts[rank]) return;
  Throw(operation, "rank {} has {} where its count is {}", rank, Describe(block), counts[rank]);
}

// `whole` is cut up into one block for each rank, `block` is this rank's.
void CheckBlocks(const Operation& operation, const char* name, const Buffer& whole,
                 const Counts& counts, const Buffer& block, int rank, int size) {
  CheckOwnBlock(operation, counts, block, rank);
  const int64_t expected = counts.empty()
                               ? size * block.num_elements
                               : std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (whole.dtype == block.dtype && whole.num_elements == expected) return;
  Throw(operation, "{} ranks with {} need an {} {}[{}], got {}", size,
        counts.empty() ? Describe(block) + " each" : "their counts", name, Name(block.dtype),
        expected, Describe(whole));
}

void CheckSame(const Operation& operation) {
  const Buffer& input = operation.input;
  const Buffer& output = operation.output;
  if (input.dtype != output.dtype || input.num_elements != output.num_elements) {
    Throw(operation, "input {} and output {} differ", Describe(input), Describe(output));
  }
}

void CheckReduction(const Operation& operation) {
  const ops::DType dtype = operation.input.dtype;
  if (Supports(operation.reduction.op, dtype)) return;
  const bool for_integers = !ops::IsFloating(dtype);
  Throw(operation, "{} is for {}, got {}; sum, average, product, min and max would work",
        Name(operation.reduction.op), for_integers ? "floating point" : "integers",
        Describe(operation.input));
}

void CheckAllToAll(const Operation& operation, int size) {
  const auto total = [](const Counts& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  };
  const Buffer& input = operation.input;
  const Buffer& output = operation.output;
  if (operation.input_counts.empty() != operation.output_counts.empty()) {
    Throw(operation, "counts for one of input and output");
  }
  if (input.dtype != output.dtype) CheckSame(operation);
  if (operation.input_counts.empty()) {
    CheckSame(operation);
    if (input.num_elements % size != 0) {
      Throw(operation, "{} can't be cut into {} even blocks", Describe(input), size);
    }
    return;
  }
  if (input.num_elements != total(operation.input_counts)) {
    Throw(operation, "the input's counts add up to {}, got {}", total(operation.input_counts),
          Describe(input));
  }
  if (output.num_elements != total(operation.output_counts)) {
    Throw(operation, "the output's counts add up to {}, got {}", total(operation.output_counts),
          Describe(output));
  }
}

}  // namespace

std::string Describe(const Buffer& buffer) {
  std::string text = fmt::format("{}[{}]", Name(buffer.dtype), buffer.num_elements);
  if (!buffer.device.is_cpu()) text += " on " + buffer.device.ToString();
  return text;
}

void CheckArguments(const Operation& operation, int rank, int size) {
  const Buffer& input = operation.input;
  const Buffer& output = operation.output;
  CheckBuffer(operation, input);
  CheckBuffer(operation, output);
  CheckCounts(operation, operation.input_counts, size);
  CheckCounts(operation, operation.output_counts, size);
  const bool is_root = rank == operation.root;
  switch (operation.kind) {
    case Kind::kJoin:
    case Kind::kBarrier:
      return;
    case Kind::kAllReduce:
      CheckSame(operation);
      return CheckReduction(operation);
    case Kind::kReduce:
      CheckRank(operation, "root", operation.root, size);
      if (is_root) CheckSame(operation);
      return CheckReduction(operation);
    case Kind::kReduceScatter:
      CheckBlocks(operation, "input", input, operation.input_counts, output, rank, size);
      return CheckReduction(operation);
    case Kind::kBroadcast:
      return CheckRank(operation, "root", operation.root, size);
    case Kind::kAllGather:
      return CheckBlocks(operation, "output", output, operation.output_counts, input, rank, size);
    case Kind::kGather:
      CheckRank(operation, "root", operation.root, size);
      if (!is_root) return CheckOwnBlock(operation, operation.output_counts, input, rank);
      return CheckBlocks(operation, "output", output, operation.output_counts, input, rank, size);
    case Kind::kScatter:
      CheckRank(operation, "root", operation.root, size);
      if (!is_root) return CheckOwnBlock(operation, operation.input_counts, output, rank);
      return CheckBlocks(operation, "input", input, operation.input_counts, output, rank, size);
    case Kind::kAllToAll:
      return CheckAllToAll(operation, size);
    case Kind::kSend:
    case Kind::kReceive:
      CheckRank(operation, "peer", operation.root, size);
      if (is_root) Throw(operation, "rank {} is this rank itself", rank);
      return;
  }
}

}  // namespace ddp
