// GPT-2's weights from a file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launch/models/gpt.h"

namespace launch {

// The model that a safetensors file holds, with its weights. The names may be ours (gpt.h), as
// `train --save` writes them, or those of Hugging Face's GPT2LMHeadModel and of programs that
// descend from it: "transformer.h.0.attn.c_attn.weight", with or without "transformer."; there a
// layer's matrix may be [in, out] (Conv1D) or [out, in] (Linear). lm_head.weight must equal
// wte.weight where it is in the file; masks ("attn.bias") are passed over.
//
// Extents follow from shapes; the number of heads, which no shape tells, is `heads`, else the
// file's metadata "heads" or "n_head", else width / 64 as in all of GPT-2's sizes. Throws what
// ReadSafetensors throws, and std::invalid_argument, with the path, for what is missing (by our
// name) or doesn't fit (by the file's): all of it, so that one look mends a file.
std::unique_ptr<Gpt> LoadGpt(const std::string& path, std::optional<int64_t> heads = {});

// The weights of such a file, into a model of the same extents. Throws the same, also where the
// metadata tell another number of heads than the model has.
void LoadGptWeights(const std::string& path, const Gpt& model);

}  // namespace launch
