#include "third_party/cuda/device_count.h"

#include <dlfcn.h>

#include <string>

namespace third_party::cuda {
namespace {

// The three functions of the driver's C interface that are needed, as cuda.h declares them.
using InitFunction = int (*)(unsigned flags);
using GetCountFunction = int (*)(int* count);
using GetErrorStringFunction = int (*)(int error, const char** text);

struct Answer {
  int count = 0;
  std::string why_none;
};

std::string Describe(GetErrorStringFunction get_error_string, const char* call, int error) {
  const char* text = nullptr;
  if (get_error_string != nullptr) get_error_string(error, &text);
  return std::string(call) + ": " + (text != nullptr ? text : "error " + std::to_string(error));
}

Answer Ask() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {0, std::string("no NVIDIA driver: ") + dlerror()};
  const auto init = reinterpret_cast<InitFunction>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<GetCountFunction>(dlsym(driver, "cuDeviceGetCount"));
  const auto get_error_string =
      reinterpret_cast<GetErrorStringFunction>(dlsym(driver, "cuGetErrorString"));
  if (init == nullptr || get_count == nullptr) {
    return {0, "libcuda.so.1 lacks cuInit or cuDeviceGetCount"};
  }
  if (const int error = init(0); error != 0) {
    return {0, Describe(get_error_string, "cuInit", error)};
  }
  int count = 0;
  if (const int error = get_count(&count); error != 0) {
    return {0, Describe(get_error_string, "cuDeviceGetCount", error)};
  }
  return {count, count == 0 ? "the NVIDIA driver reports no device" : ""};
}

}  // namespace

int DeviceCount(std::string* why_none) {
  static const Answer answer = Ask();
  if (answer.count == 0 && why_none != nullptr) *why_none = answer.why_none;
  return answer.count;
}

}  // namespace third_party::cuda
