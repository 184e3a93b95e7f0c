"""Golden cases of losses, products, attention, and of what moves, picks and adds up elements."""
import torch
import torch.nn.functional as F

from operator_goldens import (ALL, BF16, F32, F64, GENERATOR, INF, NAN, Family, extremes, randint,
                              randn)


def loss():
    family = Family("loss", promoted=True)
    edges = lambda: [torch.tensor([1, 1, 0, NAN, INF, -INF, 1e30, 1e-40, 2.5, 0.5], dtype=F64),
                     torch.tensor([1, 0, 1, 0, 0, 0, -1e30, 0, 0, 0], dtype=F64)]
    functions = {
        "mse_loss": (F.mse_loss, {}, {}),
        "l1_loss": (F.l1_loss, {}, {}),
        "huber_loss": (F.huber_loss, {"delta": 0.7}, {"delta": 0.7}),
        "bce_with_logits_loss": (F.binary_cross_entropy_with_logits, {}, {}),
    }
    for name, (compute, options, attributes) in functions.items():
        target = (lambda: randint(11, 3, 7) / 10) if name.startswith("bce") else (
            lambda: randn(3, 7))
        inputs = lambda: [2 * randn(3, 7), target()]
        for reduction in ("mean", "sum", "none"):
            call = lambda x, t: compute(x, t, reduction=reduction, **options)
            family.add(f"{name}_{reduction}", name, call, inputs,
                       ALL if reduction == "none" else (F32,), (1,), reduction=reduction,
                       **attributes)
            family.add(f"{name}_{reduction}_empty", name, call, lambda: [randn(0), randn(0)],
                       fixed=(1,), reduction=reduction, **attributes)
        call = lambda x, t: compute(x, t, reduction="none", **options)
        saturated = lambda: [extremes(), torch.arange(23) % 3 / 2.0]
        family.add(f"{name}_extreme", name, call, saturated if name.startswith("bce") else edges,
                   fixed=(1,), reduction="none", **attributes)
    add_cross_entropies(family)
    return family


def cross_entropy(x, targets, **options):
    """The classes last, as ours."""
    loss = F.cross_entropy(x.reshape(-1, x.shape[-1]), targets.reshape(-1), **options)
    return loss.view(targets.shape) if options.get("reduction") == "none" else loss


def add_cross_entropies(family):
    def add(name, inputs, dtypes=(F32,), **options):
        family.add(f"cross_entropy_{name}", "cross_entropy_loss",
                   lambda x, t: cross_entropy(x, t, **options), inputs, dtypes, **options)
    plain = lambda: [2 * randn(2, 2, 5), randint(5, 2, 2)]
    ignored = lambda: [2 * randn(5, 7), torch.tensor([2, -100, 6, -100, 0])]
    for reduction in ("mean", "sum", "none"):
        add(reduction, plain, ALL if reduction == "mean" else (F32,), reduction=reduction)
        add(f"ignored_{reduction}", ignored, reduction=reduction)
        add(f"smooth_{reduction}", ignored, ALL, reduction=reduction, label_smoothing=0.2)
    add("ignored_class", lambda: [randn(5, 7), torch.tensor([2, 3, 6, 3, 0])],
        ignore_index=3)
    add("all_ignored", lambda: [randn(2, 4), torch.tensor([-100, -100])])
    add("all_ignored_sum", lambda: [randn(2, 4), torch.tensor([-100, -100])],
        reduction="sum")
    add("wide", lambda: [4 * randn(2, 67), randint(67, 2)])
    add("one_class", lambda: [randn(3, 1), randint(1, 3)])
    rows = [[1000, -1000, 0], [-INF, 0, 1], [-INF, 0, 1], [NAN, 0, 1], [INF, 0, 1],
            [3e38, -3e38, 0], [0, 0, 0]]
    add("extreme", lambda: [torch.tensor(rows, dtype=F64), torch.tensor([1, 1, 0, 1, 1, 0, 2])],
        reduction="none")
    add("empty_none", lambda: [randn(0, 3), randint(3, 0)], reduction="none")
    add("empty_mean", lambda: [randn(0, 3), randint(3, 0)])


def attend(qkv, num_heads, causal, scale=0):
    batch, time, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = (t.view(batch, time, num_heads, width // num_heads).transpose(1, 2)
               for t in qkv.split(width, 2))
    scores = (q @ k.transpose(2, 3)) * (scale or (width // num_heads) ** -0.5)
    if causal:
        later = torch.ones(time, time, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -INF)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, time, width)


def rotate(qkv, num_heads, base=10000, first_position=0):
    batch, time, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    half = width // num_heads // 2
    position = torch.arange(first_position, first_position + time, dtype=F64)
    angle = position[:, None] / base ** (torch.arange(half, dtype=F64) / half)
    cosine, sine = (f(angle)[:, None].to(qkv.dtype) for f in (torch.cos, torch.sin))

    def turn(x):
        a, b = x.view(batch, time, num_heads, 2 * half).split(half, 3)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], 3).reshape(x.shape)
    q, k, v = qkv.split(width, 2)
    return torch.cat([turn(q), turn(k), v], 2)


def attention():
    family = Family("attention", promoted=True)

    def add(name, function, compute, inputs, dtypes=(F32,), **options):
        family.add(name, function, lambda x: compute(x, **options), inputs, dtypes, **options)
    for causal in (True, False):
        kind = "causal" if causal else "full"
        options = dict(num_heads=2, causal=causal)
        add(kind, "attention", attend, lambda: [randn(1, 5, 18)], ALL, **options)
        add(f"{kind}_scale", "attention", attend, lambda: [randn(1, 3, 12)], scale=0.7,
            num_heads=1, causal=causal)
        add(f"{kind}_one", "attention", attend, lambda: [randn(2, 1, 12)], **options)
        add(f"{kind}_long", "attention", attend, lambda: [randn(1, 67, 3)],
            num_heads=1, causal=causal)
        add(f"{kind}_huge", "attention", attend, lambda: [100 * randn(1, 6, 12)], **options)
        add(f"{kind}_empty", "attention", attend, lambda: [randn(0, 4, 12)], **options)

    def special():
        x = randn(2, 5, 12)
        x[0, 2, 0] = NAN
        return [x]
    add("full_nan", "attention", attend, special, num_heads=2, causal=False)
    add("rotary", "rotary_embedding", rotate, lambda: [randn(1, 3, 24)], ALL,
        num_heads=2)
    add("rotary_later", "rotary_embedding", rotate, lambda: [randn(1, 3, 12)],
        num_heads=1, base=500, first_position=1000)
    add("rotary_empty", "rotary_embedding", rotate, lambda: [randn(0, 4, 12)], num_heads=2)
    return family


def matmul():
    family = Family("matmul", promoted=True)
    products = {  # shapes of the factors as multiplied, before they are stored transposed
        "plain": ((5, 7), (7, 3)), "batched": ((2, 3, 5), (2, 5, 4)),
        "broadcast": ((2, 1, 3, 5), (4, 5, 2)), "shared": ((2, 3, 4), (4, 5)),
        "shared_left": ((3, 4), (2, 4, 5)), "row": ((1, 9), (9, 6)), "column": ((6, 9), (9, 1)),
        "wide": ((1, 70), (70, 2)), "no_inner": ((3, 0), (0, 2)), "no_rows": ((0, 3), (3, 2)),
        "no_batch": ((0, 2, 3), (0, 3, 2)),
    }
    for name, (a, b) in products.items():
        for ta, tb in ((False, False), (True, False), (False, True), (True, True)):
            if (ta or tb) and name not in ("plain", "batched", "broadcast", "shared"):
                continue
            stored = lambda shape, turned: randn(*shape[:-2], *(shape[:-3:-1] if turned
                                                                else shape[-2:]))
            family.add(name + "_ta" * ta + "_tb" * tb, "matmul",
                       lambda x, y: (x.mT if ta else x) @ (y.mT if tb else y),
                       lambda: [stored(a, ta), stored(b, tb)],
                       ALL if name == "batched" and not tb else (F32,), transpose_a=ta,
                       transpose_b=tb)

    def special():
        a, b = randn(4, 3), randn(3, 4)
        a[0, 0], a[1, 1], b[2, 3] = NAN, INF, 0
        return [a, b]
    family.add("extreme", "matmul", torch.matmul, special, transpose_a=False,
               transpose_b=False)
    family.add("linear", "linear", F.linear, lambda: [randn(2, 3, 7), randn(5, 7), randn(5)], ALL)
    family.add("linear_no_bias", "linear", F.linear, lambda: [randn(3, 7), randn(5, 7)])
    family.add("linear_empty", "linear", F.linear, lambda: [randn(0, 7), randn(5, 7), randn(5)])
    return family


def reduce():
    family = Family("reduce", promoted=True)
    special = lambda: [torch.tensor([[NAN, 1, 2], [INF, 1, 2], [INF, -INF, 0], [-INF, -INF, -1],
                                     [1e-40, 1e-40, 0], [3e38, 3e38, 0]], dtype=F64)]
    for name, compute in (("sum", torch.sum), ("mean", torch.mean)):
        family.add(f"{name}_all", name, compute, lambda: [randn(3, 5, 2)], ALL)
        family.add(f"{name}_scalar", name, compute, lambda: [randn()])
        family.add(f"{name}_empty", name, compute, lambda: [randn(0, 3)])
        for dims, keep in (([0], False), ([1], True), ([-1], False), ([0, 2], True),
                           ([0, 1], False), ([1, 2], False), ([0, 1, 2], False)):
            label = "".join(str(d % 3) for d in dims)
            family.add(f"{name}_{label}", name, lambda x: compute(x, dims, keepdim=keep),
                       lambda: [randn(2, 3, 4)], ALL if keep else (F32,), dims=dims, keep_dims=keep)
        family.add(f"{name}_extreme", name, lambda x: compute(x, [1]), special, dims=[1],
                   keep_dims=False)
        family.add(f"{name}_empty_rows", name, lambda x: compute(x, [1]), lambda: [randn(2, 0)],
                   dims=[1], keep_dims=False)
    ties = lambda: [randint(4, 2, 5, 4).double()]
    for dim, keep in ((0, False), (1, True), (-1, False)):
        family.add(f"max_{dim % 3}", "max", lambda x: torch.max(x, dim, keepdim=keep), ties,
                   ALL if keep else (F32,), dim=dim, keep_dim=keep)
        family.add(f"arg_max_{dim % 3}", "arg_max", lambda x: torch.argmax(x, dim), ties,
                   dim=dim)
    family.add("max_extreme", "max", lambda x: torch.max(x, 1), special, dim=1)
    family.add("max_all", "max", torch.max, lambda: [randn(3, 5)])
    family.add("max_all_nan", "max", torch.max, lambda: [torch.tensor([1, NAN, INF])])
    return family


def rearrange():
    family = Family("rearrange")

    def add(name, function, compute, inputs, dtypes=(F32,), **attributes):
        family.add(name, function, compute, inputs, dtypes, **attributes)
    cube = lambda: [randn(3, 4, 3)]
    add("reshape", "reshape", lambda x: x.reshape(2, 6, 3), cube, shape=[2, 6, 3])
    add("flatten", "flatten", lambda x: x.flatten(1), cube, first_dim=1)
    for a, b in ((0, 1), (1, 2), (-1, 0), (1, 1)):
        add(f"transpose_{a % 3}{b % 3}", "transpose", lambda x: x.transpose(a, b), cube,
            (F32, BF16) if a == 0 else (F32,), dim0=a, dim1=b)
    for dims in ([0, 1, 2], [2, 0, 1], [1, 2, 0], [-1, 1, 0]):
        add("permute_" + "".join(str(d % 3) for d in dims), "permute", lambda x: x.permute(dims),
            cube, dims=dims)
    add("permute4", "permute", lambda x: x.permute(0, 2, 1, 3), lambda: [randn(2, 3, 4, 3)],
        ALL, dims=[0, 2, 1, 3])
    add("permute_empty", "permute", lambda x: x.permute(1, 0, 2), lambda: [randn(2, 0, 3)],
        dims=[1, 0, 2])
    add("permute_int64", "permute", lambda x: x.permute(1, 0), lambda: [randint(9, 3, 5)],
        dims=[1, 0])
    for dim in (0, 1, -1):
        parts = lambda: [randn(*(n if d == dim % 3 else 3 for d in range(3))) for n in (2, 0, 1, 4)]
        add(f"concatenate_{dim % 3}", "concatenate", lambda *xs: torch.cat(xs, dim), parts,
            (F32, BF16) if dim == 1 else (F32,), dim=dim)
        add(f"slice_{dim % 3}", "slice", lambda x: x.narrow(dim, 1, 2), cube, dim=dim, begin=1,
            end=3)
        add(f"split_{dim % 3}", "split", lambda x: x.split(2, dim), cube, extent=2, dim=dim)
    add("slice_none", "slice", lambda x: x[:, 2:2], cube, dim=1, begin=2, end=2)
    add("split_extents", "split", lambda x: x.split([1, 0, 3], 1), cube, extents=[1, 0, 3], dim=1)
    for name, padding, value in (("around", [[1, 2], [0, 1], [3, 0]], 0), ("cut", [[-1, 0], [2, -1],
                                 [0, 0]], 1.5), ("none", [[0, 0], [0, 0], [0, 0]], 0)):
        flat = [n for pair in reversed(padding) for n in pair]
        add(f"pad_{name}", "pad", lambda x: F.pad(x, flat, value=value), cube,
            (F32, BF16) if value else (F32,), padding=padding, value=value)
    return family


def elementwise():
    family = Family("elementwise")
    shapes = {"equal": ((17,), (17,)), "row": ((3, 11), (11,)), "column": ((3, 11), (3, 1)),
              "both": ((4, 1, 3), (1, 5, 1)), "scalar": ((), (2, 3)), "empty": ((0, 3), (1, 3))}
    functions = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul,
                 "divide": torch.div}
    family.promoted = True
    for name, compute in functions.items():
        for label, (a, b) in shapes.items():
            family.add(f"{name}_{label}", name, compute, lambda: [randn(*a), randn(*b)],
                       ALL if label == "row" else (F32,))
        grid = lambda: [extremes(), extremes()[[0, 3, 5, 9, 10, 11, 15, 22]].view(-1, 1)]
        family.add(f"{name}_extreme", name, compute, grid, fixed=(0, 1))
    comparisons = {"equal": torch.eq, "not_equal": torch.ne, "less": torch.lt,
                   "less_equal": torch.le, "greater": torch.gt, "greater_equal": torch.ge}
    edges = lambda: [torch.tensor([0, -0.0, 1, NAN, INF, -INF, 1e-40]),
                     torch.tensor([0, 1, NAN, INF, -INF]).view(-1, 1)]
    for name, compute in comparisons.items():
        family.add(f"compare_{name}", name, compute, edges)
        family.add(f"compare_{name}_long", name, compute,
                   lambda: [randint(3, 2, 21).double(), randint(3, 21).double()], (F64, BF16))
        family.add(f"compare_{name}_int64", name, compute, lambda: [randint(3, 19), randint(3, 19)])
    condition = lambda *shape: randint(2, *shape).to(torch.uint8)
    choose = lambda c, a, b: torch.where(c != 0, a, b)
    family.add("where", "where", choose, lambda: [condition(3, 7), randn(3, 7), randn(3, 7)], ALL)
    family.add("where_broadcast", "where", choose,
               lambda: [condition(3, 1), randn(17), randn(2, 3, 1)])
    family.add("where_nan", "where", choose,
               lambda: [torch.tensor([1, 0, 1], dtype=torch.uint8), torch.tensor([1, NAN, INF]),
                        torch.tensor([NAN, 2, -INF])])
    family.promoted = False
    for to in (F32, F64, BF16, torch.float16, torch.int64, torch.int32, torch.uint8):
        scale = 1 if to.is_floating_point else 40
        values = lambda n: scale * torch.randn(n, generator=GENERATOR, dtype=F64).abs()
        family.add(f"cast_{str(to)[6:]}", "cast", lambda x: x.to(to), lambda: [values(19)], ALL,
                   to=str(to)[6:])
        if to.is_floating_point:
            family.add(f"cast_{str(to)[6:]}_extreme", "cast", lambda x: x.to(to),
                       lambda: [extremes()], (F32, F64), to=str(to)[6:])
    return family


def clip(*gradients, max_norm):
    """The clipped gradients, and the norm that they had."""
    parameters = [torch.zeros_like(g) for g in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient.detach().clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return [p.grad for p in parameters] + [norm]


def clipping():
    family = Family("clipping", promoted=True)

    def add(name, inputs, max_norm, dtypes=(F32,)):
        family.add(name, "clip_grad_norm", lambda *xs: clip(*xs, max_norm=max_norm), inputs,
                   dtypes, max_norm=max_norm)
    plain = lambda: [randn(3, 5), randn(7), randn()]
    add("clipped", plain, 0.5, ALL)
    add("below", plain, 50, ALL)
    add("zero_norm", lambda: [0 * randn(3)], 1)
    add("to_nothing", plain, 0)
    add("empty", lambda: [randn(0), randn(2)], 1)
    add("infinite", lambda: [torch.tensor([1, INF, -2]), torch.tensor([3.0])], 1)
    add("nan", lambda: [torch.tensor([1, NAN, -2]), torch.tensor([3.0])], 1)
    return family


FAMILIES = [loss, attention, matmul, reduce, rearrange, elementwise, clipping]
