// Files of named tensors in the safetensors format, as PyTorch's and Hugging Face's tools write
// them.
//
// The format: 8 bytes, little-endian, the length N of the header; N bytes of JSON, an object from
// names to {"dtype": "F32", "shape": [2, 5], "data_offsets": [begin, end]} (offsets from the end of
// the header) and perhaps "__metadata__"; then the values, little-endian, row-major, without gaps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ddp {

// All tensors of a file, in the order of its header, each with memory of its own. Throws
// std::system_error with the path when it can't be read, and std::invalid_argument with the path,
// the tensor and what is wrong when it isn't a sound safetensors file: nothing is believed about
// sizes that the file's own length doesn't confirm.
std::vector<ops::NamedTensor> ReadSafetensors(const std::string& path);

// What the file says about itself: the strings of "__metadata__". Throws as ReadSafetensors does.
using SafetensorsMetadata = std::map<std::string, std::string>;
SafetensorsMetadata ReadSafetensorsMetadata(const std::string& path);

// The beginning of such a file: all of it but the tensors' values, which follow in their order
// without gaps. For those who write it otherwise than WriteSafetensors. Throws
// std::invalid_argument for a name that comes twice, or "__metadata__".
std::string SafetensorsHeader(const std::vector<ops::NamedTensor>& tensors,
                              const SafetensorsMetadata& metadata = {});

// Writes the tensors in their order, and the metadata, so that reading gives the same bits;
// replaces the file as a whole or not at all. Throws std::system_error with the path, and what
// SafetensorsHeader throws.
void WriteSafetensors(const std::string& path, const std::vector<ops::NamedTensor>& tensors,
                      const SafetensorsMetadata& metadata = {});

}  // namespace ddp
