// Gradients that travel as matrices of low rank (Vogels et al., "PowerSGD: Practical Low-Rank
// Gradient Compression for Distributed Optimization", NeurIPS 2019), with PyTorch's defaults.
//
//   hook = PowerSgd({.matrix_approximation_rank = 2});
//   hook = CompressTo(DType::kFloat16, PowerSgd());      // all of it in float16
//   hook = PowerSgd({}, CompressTo(DType::kBFloat16));   // its messages only
//
// A gradient is seen as a matrix M [rows, columns], rows being its first dimension. One step of a
// power iteration, from Q [rank, columns] that all ranks share, finds the directions in which the
// ranks' sum is largest, and sends what lies in them:
//
//   P = sum of Q M^T   (all-reduce);  P = Orthonormalize(P)
//   Q = sum of P M     (all-reduce);  the sum of M is about P^T Q
//
// exactly so where that sum has no higher rank. What it lacks is added to M at the next step, and
// the iteration goes on from Q. Vectors, scalars and matrices too small to gain anything travel as
// they are, in the message of P.
//
// NaN or infinity anywhere in a matrix makes all of the result NaN, on all ranks, in that step
// only.
//
// Bytes that a rank sends: 2 (ranks - 1) / ranks * s * (u + sum of rank * (rows + columns) over
// the matrices), for u elements that travel as they are, of s bytes each. It keeps, for each
// matrix, 4 bytes an element, and Q. Buckets may be of any floating point dtype; messages are of
// the same, arithmetic is float32.
#pragma once

#include <cstdint>

#include "ddp/replicated/communication_hook.h"
#include "ddp/replicated/hooks/all_reduce.h"

namespace ddp {

// Alike on all ranks.
struct PowerSgdOptions {
  int matrix_approximation_rank = 1;
  // Before this step, counted from 0, buckets go to the inner hook as they are: gradients of the
  // first steps suffer most.
  int64_t start_step = 1000;
  // The step that comes first: not 0 where a training goes on from a checkpoint.
  int64_t first_step = 0;
  // A matrix is compressed if that makes it more than so many times smaller.
  double min_compression_rate = 2;
  // Costs the memory of the compressed gradients; without it what is lost is lost.
  bool use_error_feedback = true;
  // Goes on from the last step's Q, rather than from random numbers.
  bool warm_start = true;
  // Added to norms that are divided by.
  double orthogonalization_epsilon = 0;
  // Of Q's random numbers.
  uint64_t seed = 0;
};

// The inner hook adds the messages up. It sees three buckets in the place of each: 3 i for bucket i
// as it is, 3 i + 1 for P, 3 i + 2 for Q. Throws std::invalid_argument for a rank below 1.
CommunicationHook PowerSgd(const PowerSgdOptions& options = {},
                           CommunicationHook inner = AllReduceGradients);

}  // namespace ddp
