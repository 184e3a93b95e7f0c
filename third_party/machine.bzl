"""Finds out, when Bazel configures, which of the packages in packages.txt this machine has."""

def parse_packages(text):
    """Returns a list of structs (group, package, probes, purpose), one for each line."""
    packages = []
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            group, package, probes, purpose = [field.strip() for field in line.split("|")]
            packages.append(struct(
                group = group,
                package = package,
                probes = probes.split(" "),
                purpose = purpose,
            ))
    return packages

def is_present(repository_ctx, probe):
    """Whether a path exists, or a command is on PATH."""
    if probe.startswith("/"):
        return repository_ctx.path(probe).exists
    return repository_ctx.which(probe) != None

def read_switch(repository_ctx, name):
    """Returns "0", "1" or "auto", the value of a switch like --repo_env=DDP_CUDA=0."""
    value = repository_ctx.os.environ.get(name, "auto")
    if value not in ["0", "1", "auto"]:
        fail("%s=%s: expected 0 (leave out), auto (use if found) or 1 (fail if absent)" % (name, value))
    return value

def missing_message(package, purpose):
    return "%s is missing (%s): run ./bazelw, which installs it" % (package, purpose)

def _machine_impl(repository_ctx):
    missing = {}
    for entry in parse_packages(repository_ctx.read(repository_ctx.attr.packages)):
        if not all([is_present(repository_ctx, probe) for probe in entry.probes]):
            missing[entry.package] = missing_message(entry.package, entry.purpose)

    switched_off = {}
    for switch, package in repository_ctx.attr.switches.items():
        value = read_switch(repository_ctx, switch)
        if value == "0":
            switched_off[package] = "switched off by %s=0" % switch
        elif value == "1" and package in missing:
            fail("%s=1, but %s" % (switch, missing[package]))

    repository_ctx.file("packages.bzl", "MISSING = %r\nSWITCHED_OFF = %r\n" % (missing, switched_off))
    repository_ctx.file("switched_off.txt", "".join([package + "\n" for package in switched_off]))

    # Headers outside the compiler's own directories have to be reachable inside the repository.
    build = [
        "package(default_visibility = [\"//visibility:public\"])",
        "exports_files([\"switched_off.txt\"])",
    ]
    for name, path in repository_ctx.attr.include_dirs.items():
        if repository_ctx.path(path).exists:
            repository_ctx.symlink(path, name)
        build.append(
            "cc_library(name = %r, hdrs = glob([%r]), includes = [%r])" % (name, name + "/**", name),
        )
    repository_ctx.file("BUILD.bazel", "\n".join(build) + "\n")

machine = repository_rule(
    implementation = _machine_impl,
    attrs = {
        "include_dirs": attr.string_dict(
            doc = "Makes @machine//:KEY, the headers of the directory that is the value.",
        ),
        "packages": attr.label(allow_single_file = True),
        "switches": attr.string_dict(
            doc = "Environment variable (0, auto or 1) to the package that it governs.",
        ),
    },
    configure = True,
    environ = ["DDP_MPI", "PATH"],
    local = True,
)
