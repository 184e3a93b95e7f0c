#include "ops/cpu/blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace ops::cpu {
namespace {

// Loaded for the rest of the process: both libraries keep threads or thread-local state.
class SharedLibrary {
 public:
  SharedLibrary(const char* file, const char* package)
      : package_(package), handle_(dlopen(file, RTLD_LAZY | RTLD_LOCAL)) {
    if (handle_ == nullptr) Fail();
  }

  template <class Function>
  Function* Find(const char* name) const {
    void* const address = dlsym(handle_, name);
    if (address == nullptr) Fail();
    return reinterpret_cast<Function*>(address);
  }

 private:
  [[noreturn]] void Fail() const {
    throw std::runtime_error(
        fmt::format("matrix products need the package {}, run ./bazelw: {}", package_, dlerror()));
  }

  const char* package_;
  void* handle_;
};

struct OpenBlas {
  SharedLibrary library{"libopenblas.so.0", "libopenblas0-pthread"};
  decltype(cblas_sgemm)* sgemm = library.Find<decltype(cblas_sgemm)>("cblas_sgemm");
  decltype(cblas_dgemm)* dgemm = library.Find<decltype(cblas_dgemm)>("cblas_dgemm");

  OpenBlas() { library.Find<decltype(openblas_set_num_threads)>("openblas_set_num_threads")(1); }

  static const OpenBlas& Get() {
    static const OpenBlas openblas;
    return openblas;
  }
};

// With the OpenMP functions that it brings along. oneDNN is row-major.
struct OneDnn {
  SharedLibrary library{"libdnnl.so.2", "libdnnl2"};
  decltype(dnnl_sgemm)* sgemm = library.Find<decltype(dnnl_sgemm)>("dnnl_sgemm");
  int (*get_max_threads)() = library.Find<int()>("omp_get_max_threads");
  void (*set_num_threads)(int) = library.Find<void(int)>("omp_set_num_threads");

  static const OneDnn& Get() {
    static const OneDnn onednn;
    return onednn;
  }
};

// OpenMP's number of threads belongs to the calling thread, which may use OpenMP itself.
class ScopedOneOmpThread {
 public:
  explicit ScopedOneOmpThread(const OneDnn& onednn)
      : onednn_(onednn), previous_(onednn.get_max_threads()) {
    onednn_.set_num_threads(1);
  }
  ~ScopedOneOmpThread() { onednn_.set_num_threads(previous_); }

 private:
  const OneDnn& onednn_;
  int previous_;
};

template <class Gemm, class T>
void Multiply(Gemm* gemm, const MatrixProduct<T>& p) {
  const int64_t largest = std::max({p.m, p.n, p.k, p.a_stride, p.b_stride, p.c_stride});
  if (largest > std::numeric_limits<int>::max()) {
    throw std::invalid_argument(fmt::format(
        "MatMul: [{}, {}] x [{}, {}]: OpenBLAS takes extents below 2^31", p.m, p.k, p.k, p.n));
  }
  const auto to_int = [](int64_t extent) { return static_cast<int>(extent); };
  gemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans,
       p.transpose_b ? CblasTrans : CblasNoTrans, to_int(p.m), to_int(p.n), to_int(p.k), T{1}, p.a,
       to_int(p.a_stride), p.b, to_int(p.b_stride), p.accumulate ? T{1} : T{0}, p.c,
       to_int(p.c_stride));
}

}  // namespace

void MultiplyWithOpenBlas(const MatrixProduct<float>& product) {
  Multiply(OpenBlas::Get().sgemm, product);
}

void MultiplyWithOpenBlas(const MatrixProduct<double>& product) {
  Multiply(OpenBlas::Get().dgemm, product);
}

void MultiplyWithOneDnn(const MatrixProduct<float>& p) {
  const OneDnn& onednn = OneDnn::Get();
  const ScopedOneOmpThread one_thread(onednn);
  const dnnl_status_t status =
      onednn.sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1, p.a,
                   p.a_stride, p.b, p.b_stride, p.accumulate ? 1 : 0, p.c, p.c_stride);
  if (status != dnnl_success) {
    throw std::runtime_error(fmt::format("MatMul: [{}, {}] x [{}, {}]: oneDNN failed, status {}",
                                         p.m, p.k, p.k, p.n, static_cast<int>(status)));
  }
}

}  // namespace ops::cpu
