"""ddp_dependencies(): the repositories that this one needs, for its own WORKSPACE and others'."""

load("//third_party:bundled.bzl", "bundled_repository")
load("//third_party:machine.bzl", "machine")
load("//third_party/cuda:configure.bzl", "cuda_configure")

def ddp_dependencies():
    """Declares what is found on the machine; nothing is downloaded.

    What Bazel's own tools load (rules_cc, ...) is declared only where the workspace hasn't done so.
    """
    machine(
        name = "machine",
        include_dirs = {
            "mpi": "/usr/lib/x86_64-linux-gnu/openmpi/include",
            "openblas": "/usr/include/x86_64-linux-gnu/openblas-pthread",
        },
        packages = Label("//third_party:packages.txt"),
        switches = {"DDP_MPI": "libopenmpi-dev"},
    )

    cuda_configure(name = "cuda")

    # Bazel's own tools load these repositories, and would fetch them from the network.
    for name in ["rules_cc", "rules_java", "remote_coverage_tools"]:
        if name not in native.existing_rules():
            bundled_repository(name = name)
