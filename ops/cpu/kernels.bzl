"""Kernel sources, compiled once for each instruction set that ops/cpu/isa.h knows."""

_ISA_COPTS = {
    "baseline": [],
    "avx2": [
        "-mavx2",
        "-mfma",
        "-mtune=haswell",
    ],
    "avx512": [
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
        "-mfma",
        "-mprefer-vector-width=512",
    ],
}

# Neither changes a result: errno and floating point exceptions are not looked at.
_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
]

def isa_kernels(name, deps = [], contract = False):
    """NAME.cc as one library, with the tables of all instruction sets behind NAME.h.

    Args:
      name: the source without its ending.
      deps: what all copies need.
      contract: whether a * b + c may become one operation with one rounding. Without it, a kernel
        gives the same bits on every instruction set.
    """
    for isa, copts in _ISA_COPTS.items():
        native.cc_library(
            name = name + "_" + isa,
            srcs = [name + ".cc"],
            hdrs = [name + ".h"],
            copts = _COPTS + copts + ["-ffp-contract=" + ("fast" if contract else "off")],
            local_defines = ["OPS_CPU_ISA=" + isa],
            visibility = ["//visibility:private"],
            deps = deps,
        )
    native.cc_library(
        name = name,
        hdrs = [name + ".h"],
        visibility = ["//visibility:private"],
        deps = deps + [name + "_" + isa for isa in _ISA_COPTS],
    )

def kernel_family(name, users, deps = [], kernel_deps = [], test_deps = [], contract = False):
    """An operation on tensors, NAME.h, over loops for each instruction set, with its test.

    Args:
      name: of the family: NAME.h and .cc, NAME_kernels.h and .cc, NAME_test.cc.
      users: who may see NAME.h.
      deps: of NAME.cc, beside what all need.
      kernel_deps: of NAME_kernels.cc, beside kernel_element.h.
      test_deps: of NAME_test.cc, beside kernel_testing.h.
      contract: see isa_kernels.
    """
    isa_kernels(
        name = name + "_kernels",
        contract = contract,
        deps = [":kernel_element"] + kernel_deps,
    )
    native.cc_library(
        name = name,
        srcs = [name + ".cc"],
        hdrs = [name + ".h"],
        visibility = users,
        deps = deps + [
            ":isa",
            ":thread_pool",
            ":" + name + "_kernels",
            "//ops/tensor",
            "//third_party/fmt",
        ],
    )
    native.cc_test(
        name = name + "_test",
        srcs = [name + "_test.cc"],
        deps = [
            ":" + name,
            ":kernel_testing",
        ] + test_deps,
    )
