"""public_headers: the headers that users of a library include, and those that these include."""

_Direct = provider(
    doc = "What users of a target include.",
    fields = {"headers": "depset of files"},
)

def _public(target):
    return target[CcInfo].compilation_context.direct_public_headers

def _direct_impl(target, ctx):
    # A target without headers of its own stands for its dependencies.
    headers = _public(target)
    if not headers:
        for dep in ctx.rule.attr.deps:
            headers = headers + _public(dep)
    return [_Direct(headers = depset(headers))]

_direct = aspect(implementation = _direct_impl)

def _public_headers_impl(ctx):
    public = depset(transitive = [dep[_Direct].headers for dep in ctx.attr.deps])
    listing = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(listing, "".join([file.short_path + "\n" for file in public.to_list()]))
    every = depset(transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps])
    return [DefaultInfo(
        files = depset([listing]),
        runfiles = ctx.runfiles(files = [listing] + [
            file
            for file in every.to_list()
            if not file.owner.workspace_name
        ]),
    )]

public_headers = rule(
    doc = "NAME.txt lists the public headers of deps; its runfiles are all headers behind these.",
    implementation = _public_headers_impl,
    attrs = {"deps": attr.label_list(aspects = [_direct], providers = [CcInfo])},
)
