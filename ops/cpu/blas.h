// Matrix products by OpenBLAS and oneDNN, each on the calling thread alone; several threads may
// call at once. The libraries are loaded when a product first needs them: linked in, each would
// cost every process 4 ms and 4 to 5 MB, and OpenBLAS a thread for each other core. Where one can't
// be loaded, the call throws std::runtime_error that names its package.
#pragma once

#include "ops/cpu/matrix_product.h"

namespace ops::cpu {

// Throw std::invalid_argument for an extent that the library's 32-bit integers can't hold.
void MultiplyWithOpenBlas(const MatrixProduct<float>& product);
void MultiplyWithOpenBlas(const MatrixProduct<double>& product);

void MultiplyWithOneDnn(const MatrixProduct<float>& product);

}  // namespace ops::cpu
