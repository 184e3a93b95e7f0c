#include "ddp/replicated/model_agreement.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "ddp/replicated/agreement.h"
#include "ddp/replicated/work_list.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

std::string DescribeTensor(std::string_view kind, const ops::NamedTensor& named) {
  return fmt::format("{} '{}' {}{}", kind, named.name, Name(named.tensor.dtype()),
                     named.tensor.shape().ToString());
}

}  // namespace

void RequireSameModel(ProcessGroup& group, const ops::nn::Module& model,
                      const std::string& settings) {
  std::vector<std::string> lines;
  for (const ops::NamedTensor& parameter : model.Parameters()) {
    lines.push_back(DescribeTensor("parameter", parameter) +
                    (RequiresGrad(parameter.tensor) ? "" : ", frozen") +
                    (ExpectsSparseGrad(parameter.tensor) ? ", sparse gradient" : ""));
  }
  for (const ops::NamedTensor& buffer : model.Buffers()) {
    lines.push_back(DescribeTensor("buffer", buffer));
  }
  lines.push_back(settings);
  RequireSameLines(group, lines, "the ranks' models");
}

void BroadcastFrom(ProcessGroup& group, int root, std::span<const ops::NamedTensor> tensors) {
  WorkList works;
  for (const ops::NamedTensor& named : tensors) {
    works.Add(group.Broadcast(BufferOf(named.tensor), root));
  }
  works.Wait();
}

}  // namespace ddp
