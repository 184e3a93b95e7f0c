"""cuda_library: a cc_library whose sources nvcc compiles."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load(":defs.bzl", "CUDA_CONFIGURED", "CUDA_ROOT")

# Machine code for A100 and H100; newer devices translate the intermediate code when they start.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
]

_FLAGS = ["-std=c++20", "-O3", "-lineinfo", "-Xcompiler=-fPIC,-Wall"]

def cuda_library(name, target_compatible_with = [], **kwargs):
    """A library of CUDA code; without a CUDA toolkit, `//...` skips it and what depends on it.

    Args:
      name: the label.
      target_compatible_with: as everywhere.
      **kwargs: srcs (.cu), hdrs, deps, copts (for nvcc), visibility, ...: as in a cc_library.
    """
    _cuda_library(
        name = name,
        target_compatible_with = target_compatible_with +
                                 ([] if CUDA_CONFIGURED else ["//third_party:absent"]),
        **kwargs
    )

def _compile(ctx, source, compiler, compilation_context):
    output = ctx.actions.declare_file("_cuda/%s/%s.o" % (ctx.label.name, source.basename))
    args = ctx.actions.args()
    args.add_all([source, "-c", "-o", output, "-ccbin", compiler])
    args.add_all(_FLAGS + _ARCHITECTURES + ctx.attr.copts)
    args.add_all(compilation_context.defines, before_each = "-D")
    args.add_all(compilation_context.quote_includes, before_each = "-I")
    args.add_all(compilation_context.includes, before_each = "-I")
    args.add_all(compilation_context.system_includes, before_each = "-isystem")
    ctx.actions.run(
        executable = CUDA_ROOT + "/bin/nvcc",
        arguments = [args],
        inputs = depset([source], transitive = [compilation_context.headers]),
        outputs = [output],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s" % source.short_path,
        use_default_shell_env = True,
    )
    return output

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([".", ctx.bin_dir.path, ctx.genfiles_dir.path]),
    ))
    headers = cc_common.merge_cc_infos(cc_infos = [own, deps]).compilation_context
    objects = depset([
        _compile(ctx, source, toolchain.compiler_executable, headers)
        for source in ctx.files.srcs
    ])
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        linking_contexts = [deps.linking_context],
        disallow_dynamic_library = True,
    )
    return [
        DefaultInfo(files = objects),
        CcInfo(compilation_context = headers, linking_context = linking_context),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
