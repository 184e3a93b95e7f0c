"""What was found of CUDA, and labels that exist either way."""

load(
    "@cuda//:found.bzl",
    _CUBLAS_CONFIGURED = "CUBLAS_CONFIGURED",
    _CUDA_CONFIGURED = "CUDA_CONFIGURED",
    _CUDA_ROOT = "CUDA_ROOT",
    _NCCL_CONFIGURED = "NCCL_CONFIGURED",
)

CUBLAS_CONFIGURED = _CUBLAS_CONFIGURED
CUDA_CONFIGURED = _CUDA_CONFIGURED
CUDA_ROOT = _CUDA_ROOT
NCCL_CONFIGURED = _NCCL_CONFIGURED

def cuda_part(name, configured, actual):
    """A label for a part of CUDA; where it is absent, what depends on it is skipped by `//...`."""
    native.cc_library(
        name = name,
        target_compatible_with = [] if configured else ["//third_party:absent"],
        visibility = ["//visibility:public"],
        deps = [actual] if configured else [],
    )
