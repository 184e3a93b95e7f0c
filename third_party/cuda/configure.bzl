"""Finds the CUDA toolkit when Bazel configures; cuBLAS and NCCL come with it, or lie beside it."""

load("//third_party:machine.bzl", "read_switch")

def _first_existing(repository_ctx, paths):
    for path in paths:
        if repository_ctx.path(path).exists:
            return path
    return None

def _find_toolkit(repository_ctx):
    env = repository_ctx.os.environ
    roots = [env[name] for name in ["CUDA_HOME", "CUDA_PATH"] if name in env] + ["/usr/local/cuda"]
    for root in roots:
        if repository_ctx.path(root + "/bin/nvcc").exists:
            return root
    return None

_BUILD = """
package(default_visibility = ["//visibility:public"])

exports_files(["found.txt"])

# CUDA's own headers; of its C++ core libraries only what those include.
cc_library(
    name = "headers",
    hdrs = glob([
        "include/*",
        "include/cccl/nv/**",
        "include/cooperative_groups/**",
        "include/crt/**",
    ]),
    includes = ["include", "include/cccl"],
)

cc_library(
    name = "nccl_headers",
    hdrs = glob(["nccl/nccl*.h"]),
    includes = ["nccl"],
    deps = [":headers"],
)

cc_library(
    name = "runtime",
    srcs = glob(["lib/libcudart_static.a"]),
    linkopts = ["-ldl", "-lpthread", "-lrt"],
    deps = [":headers"],
)
"""

def _cuda_configure_impl(repository_ctx):
    switch = read_switch(repository_ctx, "DDP_CUDA")
    root = None if switch == "0" else _find_toolkit(repository_ctx)
    if switch == "1" and not root:
        fail("DDP_CUDA=1, but there is no bin/nvcc in $CUDA_HOME or /usr/local/cuda")

    cublas = None
    nccl = None
    if root:
        cublas = _first_existing(repository_ctx, [root + "/include/cublas_v2.h"])
        nccl = _first_existing(repository_ctx, [root + "/include/nccl.h", "/usr/include/nccl.h"])
        repository_ctx.symlink(root + "/include", "include")
        repository_ctx.symlink(root + "/lib64/libcudart_static.a", "lib/libcudart_static.a")
        if nccl:
            repository_ctx.symlink(nccl, "nccl/nccl.h")
    repository_ctx.file("BUILD.bazel", _BUILD)

    # For the doctor.
    state = "off" if switch == "0" else "no"
    repository_ctx.file("found.txt", "|".join([state, root or "", cublas or "", nccl or ""]) + "\n")
    repository_ctx.file("found.bzl", "\n".join([
        "CUDA_ROOT = %r" % root,
        "CUDA_CONFIGURED = %r" % bool(root),
        "CUBLAS_CONFIGURED = %r" % bool(cublas),
        "NCCL_CONFIGURED = %r" % bool(nccl),
        "",
    ]))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    configure = True,
    environ = ["CUDA_HOME", "CUDA_PATH", "DDP_CUDA"],
    local = True,
)
