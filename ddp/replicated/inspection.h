// What a rank looks for in its own gradients when a Backward has ended, before they are averaged:
// whatever would make the ranks differ, or the average wrong.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/replicated/findings.h"
#include "ddp/replicated/gradient_buckets.h"

namespace ddp {

struct InspectionOptions {
  // A trained parameter may be without a gradient.
  bool may_lack_gradients = false;
  // A gradient may be completed several times in one Backward.
  bool static_graph = false;
  bool check_finite = false;
};

// Adds to `findings` what is wrong with the gradients of one bucket: names of those that hold NaN
// or infinity.
void InspectBucket(const GradientBuckets::Bucket& bucket, Findings& findings);

// The rest. `replaced`: names of parameters that the model doesn't hold any more.
void InspectParameters(std::span<const ReducedParameter> parameters,
                       const std::vector<std::string>& replaced, const InspectionOptions& options,
                       Findings& findings);

}  // namespace ddp
