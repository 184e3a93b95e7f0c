#include "ddp/replicated/inspection.h"

#include <fmt/format.h>

#include "ops/autograd/grad.h"
#include "ops/optim/clip.h"

namespace ddp {
namespace {

void InspectSparse(const ReducedParameter& parameter, const InspectionOptions& options,
                   Findings& findings) {
  if (Grad(parameter.tensor).defined()) {
    findings.errors.push_back(fmt::format(
        "the gradient of '{}' is dense, where a sparse one was expected: does something beside the "
        "embedding use it?",
        parameter.name));
  }
  if (!options.check_finite) return;
  const ops::SparseGradient gradient = SparseGrad(parameter.tensor);
  if (gradient.defined() && !ops::optim::AllFinite(gradient.rows)) {
    findings.not_finite.push_back(parameter.name);
  }
}

// Whether it was frozen or thawed since the buckets were filled, and has a gradient if it needs
// one.
void InspectTraining(const ReducedParameter& parameter, const InspectionOptions& options,
                     Findings& findings) {
  const bool requires_grad = RequiresGrad(parameter.tensor);
  const bool thawed_and_frozen = !requires_grad && parameter.is_local && parameter.HasGradient();
  if (!parameter.trained && (requires_grad || thawed_and_frozen)) {
    findings.thawed.push_back(parameter.name);
  }
  if (!requires_grad && (parameter.trained || thawed_and_frozen)) {
    findings.frozen.push_back(parameter.name);
  }
  const bool may_lack = options.may_lack_gradients && parameter.trained;
  if (requires_grad && !may_lack && !parameter.HasGradient()) {
    findings.unreached.push_back(parameter.name);
  }
}

void InspectVisits(const ReducedParameter& parameter, const InspectionOptions& options,
                   Findings& findings) {
  if (!options.static_graph && parameter.completed > 1) {
    findings.errors.push_back(fmt::format(
        "the gradient of '{}' was completed {} times in one Backward; static_graph allows that",
        parameter.name, parameter.completed));
  }
  if (parameter.expected && parameter.completed != *parameter.expected) {
    findings.errors.push_back(fmt::format(
        "the graph isn't static: Backward reached '{}' {} times, in the first one {} times",
        parameter.name, parameter.completed, *parameter.expected));
  }
}

}  // namespace

void InspectBucket(const GradientBuckets::Bucket& bucket, Findings& findings) {
  if (ops::optim::AllFinite(bucket.gradients.gradients)) return;
  for (const auto& [name, gradient] : bucket.gradients.parts) {
    if (!ops::optim::AllFinite(gradient)) findings.not_finite.push_back(name);
  }
}

void InspectParameters(std::span<const ReducedParameter> parameters,
                       const std::vector<std::string>& replaced, const InspectionOptions& options,
                       Findings& findings) {
  for (const ReducedParameter& parameter : parameters) {
    if (parameter.sparse) InspectSparse(parameter, options, findings);
    InspectTraining(parameter, options, findings);
    InspectVisits(parameter, options, findings);
  }
  for (const std::string& name : replaced) {
    std::erase(findings.unreached, name);
    findings.replaced.push_back(name);
  }
}

}  // namespace ddp
