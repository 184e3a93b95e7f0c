#include "ddp/replicated/sparse_reduction.h"

#include <numeric>
#include <vector>

#include "ddp/collectives/reduce.h"
#include "ddp/replicated/work_list.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using ops::SparseGradient;
using ops::Tensor;
using Counts = ProcessGroup::Counts;

constexpr int64_t kNone = -1;  // in the place of a number of rows: no gradient

SparseGradient Empty(const Tensor& parameter, int64_t num_rows) {
  return {Tensor::Empty({num_rows}, {.dtype = ops::DType::kInt64}),
          Tensor::Empty({num_rows, parameter.dim(1)}, parameter.options())};
}

// By rank, then by parameter.
std::vector<int64_t> GatherNumRows(ProcessGroup& group, std::span<const SparseGradient> own) {
  std::vector<int64_t> mine;
  for (const SparseGradient& gradient : own) {
    mine.push_back(gradient.defined() ? gradient.ids.dim(0) : kNone);
  }
  std::vector<int64_t> all(mine.size() * group.size());
  const auto buffer = [](std::vector<int64_t>& values) {
    return Buffer{values.data(), static_cast<int64_t>(values.size()), ops::DType::kInt64};
  };
  group.AllGather(buffer(mine), buffer(all))->Wait();
  return all;
}

// Begins to gather the rows of all ranks into `all`; `num_rows` by rank.
void Gather(ProcessGroup& group, const SparseGradient& own, const SparseGradient& all,
            Counts num_rows, WorkList& works) {
  works.Add(group.AllGather(BufferOf(own.ids), BufferOf(all.ids), num_rows));
  for (int64_t& count : num_rows) count *= all.rows.dim(1);
  works.Add(group.AllGather(BufferOf(own.rows), BufferOf(all.rows), num_rows));
}

}  // namespace

void ReduceSparseGradients(ProcessGroup& group, std::span<const Tensor> parameters, double scale,
                           bool gives) {
  if (parameters.empty()) return;
  std::vector<SparseGradient> own, all(parameters.size());
  for (const Tensor& parameter : parameters) {
    own.push_back(gives ? CoalesceGrad(parameter) : SparseGradient());
  }
  const std::vector<int64_t> told = GatherNumRows(group, own);
  WorkList works;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Counts num_rows;
    bool is_given = false;
    for (size_t at = i; at < told.size(); at += parameters.size()) {
      is_given |= told[at] != kNone;
      num_rows.push_back(told[at] == kNone ? 0 : told[at]);
    }
    if (!is_given) continue;
    all[i] = Empty(parameters[i], std::accumulate(num_rows.begin(), num_rows.end(), int64_t{0}));
    if (all[i].ids.num_elements() == 0) continue;
    if (!own[i].defined()) own[i] = Empty(parameters[i], 0);
    Gather(group, own[i], all[i], num_rows, works);
  }
  works.Wait();
  for (size_t i = 0; i < parameters.size(); ++i) {
    ClearGrad(parameters[i]);
    if (!all[i].defined()) continue;
    const SparseGradient sum = Coalesce(all[i]);
    Multiply(sum.rows.dtype(), scale, sum.rows.raw_data(), sum.rows.raw_data(),
             sum.rows.num_elements());
    SetSparseGrad(parameters[i], sum);
  }
}

}  // namespace ddp
