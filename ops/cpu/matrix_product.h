// C[m, n] = op(A) op(B), or that added to C, as pointers and strides: what the libraries and the
// loops behind MatMul understand.
#pragma once

#include <cstdint>

namespace ops::cpu {

template <class T>
struct MatrixProduct {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  const T* a;
  int64_t a_stride;  // elements between the rows of A as it is stored
  const T* b;
  int64_t b_stride;
  T* c;
  int64_t c_stride;
  bool accumulate;
};

}  // namespace ops::cpu
