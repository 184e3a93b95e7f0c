// How many CUDA devices this process can use, asked without linking to CUDA.
//
//   std::string why_none;
//   if (third_party::cuda::DeviceCount(&why_none) == 0) {
//     throw std::runtime_error("no CUDA device: " + why_none);
//   }
//
// The driver (libcuda.so.1) is loaded on the first call and stays loaded; a process that never
// calls pays nothing. The answer is that of the first call. Any thread may call.

#ifndef THIRD_PARTY_CUDA_DEVICE_COUNT_H_
#define THIRD_PARTY_CUDA_DEVICE_COUNT_H_

#include <string>

namespace third_party::cuda {

// Returns the number of devices. When it is 0 and `why_none` is not null, `*why_none` says why:
// built without CUDA, no driver, or the driver's own words.
int DeviceCount(std::string* why_none = nullptr);

}  // namespace third_party::cuda

#endif  // THIRD_PARTY_CUDA_DEVICE_COUNT_H_
