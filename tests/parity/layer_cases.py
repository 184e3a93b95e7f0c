"""Golden cases of the functions that layers are made of."""
import torch
import torch.nn.functional as F

from operator_goldens import ALL, BF16, F32, F64, INF, NAN, Family, extremes, randint, randn


def activations():
    family = Family("activations")
    functions = {
        "relu": (F.relu, {}),
        "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), {"negative_slope": 0.2}),
        "gelu": (F.gelu, {}),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), {}),
        "sigmoid": (torch.sigmoid, {}),
        "tanh": (torch.tanh, {}),
        "silu": (F.silu, {}),
    }
    for name, (compute, attributes) in functions.items():
        family.promoted = name == "silu"
        family.add(name, name, compute, lambda: [3 * randn(2, 19)], ALL, **attributes)
        family.add(f"{name}_extreme", name, compute, lambda: [extremes()], (F32, BF16),
                   **attributes)
        family.add(f"{name}_extreme64", name, compute, lambda: [extremes(F64)], (F64,),
                   **attributes)
        family.add(f"{name}_empty", name, compute, lambda: [randn(0, 3)], **attributes)
    family.promoted = True
    swiglu = lambda gate, up: F.silu(gate) * up
    family.add("swiglu", "swiglu", swiglu, lambda: [3 * randn(2, 19), randn(2, 19)], ALL)
    family.add("swiglu_extreme", "swiglu", swiglu, lambda: [extremes(), randn(23)])
    family.add("swiglu_empty", "swiglu", swiglu, lambda: [randn(0), randn(0)])
    return family


def softmax():
    family = Family("softmax")
    rows = lambda: [torch.tensor([[-INF] * 3, [INF, 0, 1], [NAN, 0, 1], [3e38, -3e38, 0],
                                  [1000, 1000, 999], [-INF, 0, 1], [0, 0, 0], [1e-40, 0, 88]],
                                 dtype=F64)]
    for name, compute in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
        for dim in (0, 1, -1):
            family.add(f"{name}_dim{dim % 3}", name, lambda x: compute(x, dim),
                       lambda: [2 * randn(2, 4, 5)],
                       ALL if dim == 1 else (F32,), dim=dim)
        family.add(f"{name}_wide", name, lambda x: compute(x, -1), lambda: [5 * randn(1, 67)],
                   dim=-1)
        family.add(f"{name}_one", name, lambda x: compute(x, -1), lambda: [randn(4, 1)],
                   dim=-1)
        family.add(f"{name}_extreme", name, lambda x: compute(x, -1), rows, ALL, dim=-1)
        family.add(f"{name}_empty", name, lambda x: compute(x, -1), lambda: [randn(0, 3)],
                   dim=-1)
    return family


def rms_norm(x, weight, epsilon):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
    return y if weight is None else y * weight


def batch_norm(x, weight, bias, mean, variance, **options):
    """Also returns the running statistics, which it changes."""
    mean, variance = (None if t is None else t.clone() for t in (mean, variance))
    y = F.batch_norm(x, mean, variance, weight, bias, **options)
    return [y] if mean is None else [y, mean, variance]


def normalization():
    family = Family("normalization", promoted=True)
    special = lambda: torch.tensor([[1, 2, NAN, 4], [1, INF, 3, 4], [5, 5, 5, 5], [0, 0, 0, 0],
                                    [1e-30, -1e-30, 2e-30, 0], [16, 17, 18, 19]], dtype=F64)
    for dims, shape in ((1, (19,)), (2, (3, 5))):
        compute = lambda x, w=None, b=None: F.layer_norm(x, shape, w, b, 1e-3)
        family.add(f"layer_norm{dims}", "layer_norm", compute,
                   lambda: [randn(3, *shape) + 1, randn(*shape), randn(*shape)],
                   ALL if dims == 1 else (F32,), num_dims=dims, epsilon=1e-3)
    plain = lambda x: F.layer_norm(x, x.shape[-1:])
    for name, x in (("plain", lambda: [randn(3, 8)]), ("empty", lambda: [randn(0, 8)]),
                    ("extreme", lambda: [special()])):
        family.add(f"layer_norm_{name}", "layer_norm", plain, x, num_dims=1,
                   epsilon=1e-5)
        family.add(f"rms_norm_{name}", "rms_norm", lambda x: rms_norm(x, None, 1e-6), x,
                   epsilon=1e-6)
    family.add("rms_norm", "rms_norm", lambda x, w: rms_norm(x, w, 1e-2),
               lambda: [randn(3, 17), randn(17)], ALL, epsilon=1e-2)
    for groups in (1, 2, 6):
        family.add(f"group_norm{groups}", "group_norm",
                   lambda x, w, b: F.group_norm(x, groups, w, b, 1e-4),
                   lambda: [randn(2, 6, 2, 3) + 1, randn(6), randn(6)],
                   ALL if groups == 2 else (F32,), groups=groups, epsilon=1e-4)
    family.add("group_norm_plain", "group_norm", lambda x: F.group_norm(x, 2),
               lambda: [randn(3, 4, 5)], groups=2, epsilon=1e-5)
    family.add("group_norm_empty", "group_norm", lambda x, w, b: F.group_norm(x, 2, w, b),
               lambda: [randn(0, 4, 5), randn(4), randn(4)], groups=2, epsilon=1e-5)
    add_batch_norms(family)
    return family


def add_batch_norms(family):
    affine = lambda c: [randn(c), randn(c)]
    statistics = lambda c: [randn(c), randn(c).abs() + 0.5]
    for training in (True, False):
        mode = "train" if training else "eval"
        options = dict(training=training, momentum=0.3, epsilon=1e-4)
        compute = lambda *xs: batch_norm(*xs, training=training, momentum=0.3, eps=1e-4)
        for name, shape in (("2d", (3, 4, 2, 3)), ("1d", (5, 3)), ("length", (2, 3, 7))):
            c = shape[1]
            family.add(f"batch_norm_{mode}_{name}", "batch_norm", compute,
                       lambda: [randn(*shape) * 2 + 1] + affine(c) + statistics(c),
                       ALL if name == "2d" else (F32,), (3, 4),
                       **options)
        family.add(f"batch_norm_{mode}_plain", "batch_norm", compute,
                   lambda: [randn(4, 3), None, None] + statistics(3), fixed=(3, 4),
                   **options)
        family.add(f"batch_norm_{mode}_relu", "batch_norm",
                   lambda *xs: [F.relu(y) if i == 0 else y for i, y in enumerate(compute(*xs))],
                   lambda: [randn(3, 4, 2)] + affine(4) + statistics(4),
                   fixed=(3, 4), relu=True, **options)
        family.add(f"batch_norm_{mode}_extreme", "batch_norm", compute,
                   lambda: [torch.tensor([[NAN, 2, 2, 1], [1, INF, 2, -1], [0, 3, 2, 5]],
                                         dtype=F64)] + affine(4) + statistics(4),
                   fixed=(3, 4), **options)
    family.add("batch_norm_no_statistics", "batch_norm",
               lambda *xs: batch_norm(*xs, training=True), lambda: [randn(4, 3)] + affine(3) +
               [None, None], training=True, momentum=0.1, epsilon=1e-5)


def embedding():
    family = Family("embedding", promoted=True)
    ids = lambda: torch.tensor([[3, 1, 3], [0, 3, 1]])
    family.add("repeated", "embedding", lambda i, t: F.embedding(i, t),
               lambda: [ids(), randn(5, 5)], ALL, padding_id=-1)
    family.add("padding", "embedding", lambda i, t: F.embedding(i, t, padding_idx=3),
               lambda: [ids(), randn(5, 5)], ALL, padding_id=3)
    family.add("long", "embedding", lambda i, t: F.embedding(i, t),
               lambda: [randint(3, 2, 20), randn(3, 3)], padding_id=-1)
    family.add("scalar", "embedding", lambda i, t: F.embedding(i, t),
               lambda: [torch.tensor(2), randn(3, 4)], padding_id=-1)
    family.add("none", "embedding", lambda i, t: F.embedding(i, t),
               lambda: [randint(3, 0), randn(3, 4)], padding_id=-1)
    family.add("extreme", "embedding", lambda i, t: F.embedding(i, t),
               lambda: [torch.tensor([1, 0]), torch.tensor([[NAN, INF], [-INF, 1e-40]])],
               padding_id=-1)
    return family


def convolution():
    family = Family("convolution", promoted=True)
    cases = [  # name, x, weight, bias, options
        ("plain", (1, 3, 6, 5), (4, 3, 3, 3), True, {}),
        ("stride_padding", (2, 2, 6, 5), (3, 2, 3, 3), True,
         dict(stride=[2, 2], padding=[1, 1])),
        ("uneven", (1, 2, 7, 6), (3, 2, 3, 2), False,
         dict(stride=[2, 1], padding=[0, 1], dilation=[1, 2])),
        ("dilation", (1, 2, 6, 6), (2, 2, 3, 3), True, dict(padding=[2, 2], dilation=[2, 2])),
        ("groups", (1, 4, 4, 5), (6, 2, 3, 3), True, dict(padding=[1, 1], groups=2)),
        ("depthwise", (1, 4, 4, 5), (4, 1, 3, 3), False, dict(padding=[1, 1], groups=4)),
        ("multiplier", (1, 3, 5, 5), (6, 1, 3, 3), True, dict(stride=[2, 2], groups=3)),
        ("pointwise", (2, 5, 4, 3), (7, 5, 1, 1), True, {}),
        ("pointwise_stride", (2, 5, 5, 4), (3, 5, 1, 1), False, dict(stride=[2, 2])),
        ("wide_kernel", (1, 1, 7, 8), (2, 1, 7, 7), True, dict(stride=[2, 2], padding=[3, 3])),
        ("gap", (1, 2, 8, 8), (2, 2, 2, 2), True, dict(stride=[3, 3])),
        ("whole", (2, 2, 3, 3), (3, 2, 3, 3), True, {}),
        ("empty", (0, 3, 5, 5), (2, 3, 3, 3), True, {}),
    ]
    for name, x, weight, bias, options in cases:
        family.add(f"conv2d_{name}", "conv2d", lambda *xs: F.conv2d(*xs, **options),
                   lambda: [randn(*x), randn(*weight)] + ([randn(weight[0])] if bias else []),
                   (F32, F64) if name == "uneven" else (F32,), **options)
    family.add("conv2d_bf16", "conv2d", lambda *xs: F.conv2d(*xs, padding=1),
               lambda: [randn(1, 3, 6, 6), randn(4, 3, 3, 3), randn(4)], (BF16,), padding=[1, 1])

    def special():
        x = randn(1, 1, 6, 6)
        x[0, 0, 0, 0], x[0, 0, 5, 5] = NAN, INF
        return [x, randn(2, 1, 3, 3)]
    family.add("conv2d_extreme", "conv2d", F.conv2d, special)

    transposed = [
        ("plain", (1, 3, 3, 4), (3, 2, 3, 3), True, {}),
        ("stride", (1, 3, 4, 3), (3, 2, 3, 3), True,
         dict(stride=[2, 2], padding=[1, 1], output_padding=[1, 1])),
        ("uneven", (1, 2, 3, 4), (2, 3, 2, 3), False,
         dict(stride=[3, 1], padding=[0, 1], output_padding=[1, 0], dilation=[1, 2])),
        ("groups", (1, 4, 3, 3), (4, 3, 2, 2), True, dict(stride=[2, 2], groups=2)),
        ("empty", (0, 3, 4, 4), (3, 2, 3, 3), True, {}),
    ]
    for name, x, weight, bias, options in transposed:
        out = weight[1] * options.get("groups", 1)
        family.add(f"transposed2d_{name}", "conv_transpose2d",
                   lambda *xs: F.conv_transpose2d(*xs, **options),
                   lambda: [randn(*x), randn(*weight)] + ([randn(out)] if bias else []),
                   ALL if name == "stride" else (F32,), **options)
    for name, options in (("plain", {}), ("all", dict(stride=2, padding=2, dilation=2, groups=2))):
        groups = options.get("groups", 1)
        family.add(f"conv1d_{name}", "conv1d", lambda *xs: F.conv1d(*xs, **options),
                   lambda: [randn(2, 4, 9), randn(6, 4 // groups, 3), randn(6)],
                   **options)
        options = dict(options, output_padding=1) if options else options
        family.add(f"transposed1d_{name}", "conv_transpose1d",
                   lambda *xs: F.conv_transpose1d(*xs, **options),
                   lambda: [randn(2, 4, 4), randn(4, 2, 3), randn(2 * groups)],
                   **options)
    return family


def pooling():
    family = Family("pooling", promoted=True)
    windows = [
        ("plain", [2, 2], {}),
        ("overlap", [3, 3], dict(stride=[2, 2], padding=[1, 1])),
        ("ceil", [3, 2], dict(stride=[2, 2], ceil_mode=True)),
        ("ceil_padding", [3, 3], dict(stride=[2, 3], padding=[1, 1], ceil_mode=True)),
        ("gap", [2, 2], dict(stride=[3, 3])),
    ]
    ties = lambda *shape: randint(3, *shape).double()
    for name, kernel, options in windows:
        dtypes = ALL if name == "overlap" else (F32,)
        family.add(f"max2d_{name}", "max_pool2d", lambda x: F.max_pool2d(x, kernel, **options),
                   lambda: [randn(1, 2, 7, 6)], dtypes, kernel=kernel, **options)
        for count in (True, False):
            family.add(f"avg2d_{name}_{count}".lower(), "avg_pool2d",
                       lambda x: F.avg_pool2d(x, kernel, count_include_pad=count, **options),
                       lambda: [randn(1, 2, 7, 6)], dtypes, kernel=kernel, count_padding=count,
                       **options)
    overlap = windows[1][2]
    family.add("max2d_ties", "max_pool2d", lambda x: F.max_pool2d(x, [3, 3], **overlap),
               lambda: [ties(1, 2, 7, 6)], kernel=[3, 3], **overlap)

    def special():
        x = ties(1, 1, 7, 6)
        x[0, 0, 0, 0], x[0, 0, 1, 1], x[0, 0, 4, 4] = NAN, NAN, INF
        x[0, 0, 3:, :3] = -INF
        return [x]
    for function, compute in (("max_pool2d", F.max_pool2d), ("avg_pool2d", F.avg_pool2d)):
        family.add(f"{function[:3]}2d_extreme", function,
                   lambda x: compute(x, [3, 3], **overlap), special, kernel=[3, 3],
                   **overlap)
        family.add(f"{function[:3]}2d_empty", function, lambda x: compute(x, [2, 2]),
                   lambda: [randn(0, 2, 4, 4)], kernel=[2, 2])
    for kind, compute2, compute1 in (
            ("avg", F.adaptive_avg_pool2d, F.adaptive_avg_pool1d),
            ("max", F.adaptive_max_pool2d, F.adaptive_max_pool1d)):
        for output in ([1, 1], [3, 4], [7, 6], [9, 5]):
            family.add(f"adaptive_{kind}2d_{output[0]}_{output[1]}", f"adaptive_{kind}_pool2d",
                       lambda x: compute2(x, output), lambda: [ties(1, 2, 7, 6) if kind == "max"
                                                               else randn(1, 2, 7, 6)],
                       ALL if output == [3, 4] else (F32,), output=output)
        family.add(f"adaptive_{kind}1d", f"adaptive_{kind}_pool1d", lambda x: compute1(x, 4),
                   lambda: [randn(1, 2, 9)], output=4)
        family.add(f"adaptive_{kind}2d_extreme", f"adaptive_{kind}_pool2d",
                   lambda x: compute2(x, [2, 2]), special, output=[2, 2])
    one = dict(stride=2, padding=1, ceil_mode=True)
    family.add("max1d", "max_pool1d", lambda x: F.max_pool1d(x, 3, **one),
               lambda: [ties(1, 2, 10)], kernel=3, **one)
    family.add("avg1d", "avg_pool1d", lambda x: F.avg_pool1d(x, 3, count_include_pad=False, **one),
               lambda: [randn(1, 2, 10)], kernel=3, count_padding=False, **one)
    return family


FAMILIES = [activations, softmax, normalization, embedding, convolution, pooling]
