"""A library of the machine as a label that always exists."""

load("@machine//:packages.bzl", "MISSING", "SWITCHED_OFF")

def is_available(package):
    return package not in MISSING and package not in SWITCHED_OFF

def system_library(name, package, **kwargs):
    """A cc_library that stands for an installed library.

    Where the package is missing, what depends on it fails with one line that names the package.
    Where it is switched off (DDP_MPI=0), what depends on it is incompatible: `//...` skips it.

    Args:
      name: the label.
      package: a Debian package of packages.txt.
      **kwargs: for cc_library, mostly linkopts.
    """
    if package in SWITCHED_OFF:
        native.cc_library(
            name = name,
            target_compatible_with = ["//third_party:absent"],
            visibility = ["//visibility:public"],
        )
    elif package in MISSING:
        _missing_library(
            name = name,
            message = MISSING[package],
            tags = ["manual"],
            visibility = ["//visibility:public"],
        )
    else:
        native.cc_library(name = name, visibility = ["//visibility:public"], **kwargs)

def _missing_library_impl(ctx):
    fail(ctx.attr.message)

_missing_library = rule(
    implementation = _missing_library_impl,
    attrs = {"message": attr.string()},
    provides = [CcInfo],
)
