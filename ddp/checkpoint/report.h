// Checkpoints for people to read.
#pragma once

#include <string>

#include "ddp/checkpoint/checkpoint.h"

namespace ddp {

// Where the training was, what it was told, and the tensors of each group:
//
//   step 120, epoch 0, 7680 samples of it
//   counters: batches 120, skipped_steps 0
//   settings: batch_size 64, ...
//   model: 4 tensors, 203264 bytes
//     0.weight  float32[64, 784]
//     ...
std::string Describe(const Checkpoint& checkpoint);

// A line for each thing that differs: "model 0.weight: 17 of 50176 elements, by at most 3.1e-07";
// "" where both hold the same bits.
std::string DescribeDifferences(const Checkpoint& one, const Checkpoint& other);

}  // namespace ddp
