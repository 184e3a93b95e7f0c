#include <algorithm>
#include <stdexcept>
#include <string>

#include "ops/cuda/saxpy.h"

namespace ops::cuda {
namespace {

constexpr int kThreadsPerBlock = 256;
constexpr int64_t kMaxBlocks = 4096;  // more elements than threads: each thread takes several

__global__ void SaxpyKernel(int64_t num_elements, float a, const float* x, float* y) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < num_elements; i += stride) {
    y[i] += a * x[i];
  }
}

}  // namespace

void Saxpy(int64_t num_elements, float a, const float* x, float* y, cudaStream_t stream) {
  if (num_elements == 0) return;
  const int64_t num_blocks =
      std::min(kMaxBlocks, (num_elements + kThreadsPerBlock - 1) / kThreadsPerBlock);
  SaxpyKernel<<<static_cast<unsigned>(num_blocks), kThreadsPerBlock, 0, stream>>>(num_elements, a,
                                                                                  x, y);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("Saxpy: ") + cudaGetErrorString(error));
  }
}

}  // namespace ops::cuda
