"""Whether MPI is there, for BUILD files that choose between a source file and its stub."""

load("//third_party:system_library.bzl", "is_available")

MPI_CONFIGURED = is_available("libopenmpi-dev")
