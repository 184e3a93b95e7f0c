// Findings: what a rank has noticed in a Backward that the others must know, and what all of them
// make of it. Ranks exchange findings only when one has some, which a flag tells that travels with
// the gradients.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Names are those of parameters.
struct Findings {
  // This rank has no batches left and follows the others.
  bool follows = false;
  std::vector<std::string> unreached = {};   // trained, and without a gradient
  std::vector<std::string> replaced = {};    // the model holds another tensor now
  std::vector<std::string> not_finite = {};  // their own gradients, before the sum
  std::vector<std::string> frozen = {};      // trained until now
  std::vector<std::string> thawed = {};      // frozen until now
  std::vector<std::string> errors = {};      // anything else, as text

  bool empty() const {
    return unreached.empty() && replaced.empty() && not_finite.empty() && frozen.empty() &&
           thawed.empty() && errors.empty();
  }

  std::string Encode() const;
  // Of what Encode made; throws std::invalid_argument for anything else.
  static Findings Decode(std::string_view text);
};

struct Verdict {
  // "rank 1: no gradient for 'b' (...); rank 2: ..."; "": nothing is wrong.
  std::string trouble;
  // All that is wrong is that numbers are not finite.
  bool only_not_finite = false;
  // Where nothing is wrong: what all ranks have frozen and thawed alike.
  std::vector<std::string> frozen, thawed;
};

// The same on all ranks. `ranks`: of each, by rank. With `may_lack_gradients`, `unreached` isn't
// wrong.
Verdict Judge(std::span<const Findings> ranks, bool may_lack_gradients = false);

}  // namespace ddp
