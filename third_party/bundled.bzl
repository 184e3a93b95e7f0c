"""bundled_repository: a folder of third_party/bazel as a repository, in any workspace."""

def _bundled_repository_impl(repository_ctx):
    # A local_repository's path would start at the workspace that is being built.
    workspace_file = Label("//third_party:bazel/%s/WORKSPACE" % repository_ctx.name)
    for entry in repository_ctx.path(workspace_file).dirname.readdir():
        repository_ctx.symlink(entry, entry.basename)

bundled_repository = repository_rule(
    implementation = _bundled_repository_impl,
    local = True,
)
