#include "ops/cuda/saxpy.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "third_party/cuda/device_count.h"

namespace ops::cuda {
namespace {

// Device memory that holds a copy of `values`.
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<float>& values) : num_elements_(values.size()) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), num_bytes()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), num_bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  float* data() { return data_; }
  std::vector<float> ToHost() const {
    std::vector<float> values(num_elements_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, num_bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  size_t num_bytes() const { return num_elements_ * sizeof(float); }

  size_t num_elements_;
  float* data_ = nullptr;
};

class SaxpyTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::string why_none;
    if (third_party::cuda::DeviceCount(&why_none) > 0) return;
    if (std::getenv("DDP_REQUIRE_GPU") != nullptr) FAIL() << "no GPU: " << why_none;
    GTEST_SKIP() << "no GPU here, so this was compiled and linked only: " << why_none;
  }
};

TEST_P(SaxpyTest, AddsAMultiple) {
  const int num_elements = GetParam();
  std::vector<float> x(num_elements), y(num_elements), expected(num_elements);
  for (int i = 0; i < num_elements; ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = 1.0f;
    expected[i] = 2.0f * x[i] + 1.0f;
  }
  DeviceArray device_x(x), device_y(y);
  Saxpy(num_elements, 2.0f, device_x.data(), device_y.data(), /*stream=*/nullptr);
  EXPECT_EQ(device_y.ToHost(), expected);
}

// The last one has more elements than the grid has threads.
INSTANTIATE_TEST_SUITE_P(Sizes, SaxpyTest, testing::Values(0, 1, 3, 17, 1000, 3'000'001));

}  // namespace
}  // namespace ops::cuda
