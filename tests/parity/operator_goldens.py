"""How golden outputs and gradients of single functions are made and written.

A family of functions is one safetensors file. Case NAME has inputs NAME/x0, NAME/x1, ... (one that
is missing is undefined) and gradients NAME/dy0, ... of a loss with respect to outputs; and for each
of its dtypes outputs NAME/DTYPE/y0, ... and gradients NAME/DTYPE/dx0, ... with respect to those
inputs that require one. Floating x, dy and dx are stored in the smallest dtype that holds them: x
and dx belong to DTYPE, dy to its output's dtype. The file's metadata "cases" is a JSON object from
names to {"function": ..., "dtypes": [...], and the function's attributes}. The same PyTorch on the
same machine gives the same files.

float32 and float64 are PyTorch's own in that dtype. Functions whose bfloat16 kernel rounds more
than once, or doesn't exist (`promoted`), are calculated in float32 from bfloat16 inputs and rounded
once.
"""
import json
import os
import struct
import zlib

import torch

F32, F64, BF16 = ALL = torch.float32, torch.float64, torch.bfloat16
SAFETENSORS_NAMES = {F32: "F32", F64: "F64", BF16: "BF16", torch.float16: "F16", torch.int64: "I64",
                     torch.int32: "I32", torch.uint8: "U8"}
NAN, INF = float("nan"), float("inf")


# ---------------------------------------------------------------- files
def bytes_of(tensor):
    tensor = tensor.detach().contiguous()
    return (tensor.view(torch.int16) if tensor.dtype == BF16 else tensor).numpy().tobytes()


def write_safetensors(path, tensors, metadata):
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        blob = bytes_of(tensor)
        header[name] = {"dtype": SAFETENSORS_NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


# ---------------------------------------------------------------- cases
GENERATOR = torch.Generator()  # of the case that is being made


def randn(*shape):
    """Standard normal, rounded to bfloat16 so that all dtypes can have the same values."""
    return torch.randn(shape, generator=GENERATOR).to(BF16).to(F64)


def randint(high, *shape):
    return torch.randint(high, shape, generator=GENERATOR)


def extremes(dtype=F32):
    """Values at the ends of a dtype's range, at zero, and where functions saturate."""
    info = torch.finfo(dtype)
    positive = [0.0, info.tiny / 4, info.tiny, 2**-13, 0.5, 3, 9, 20, 100, info.max, INF]
    return torch.tensor(positive + [-v for v in positive] + [NAN], dtype=F64)


def smallest(tensor):
    """In the smallest dtype that holds the values exactly."""
    for dtype in (BF16, F32):
        if torch.equal(tensor.to(dtype).to(tensor.dtype).nan_to_num(), tensor.nan_to_num()):
            return tensor.to(dtype)
    return tensor


def is_floating(x):
    return x is not None and x.is_floating_point()


class Family:
    """The cases of one file."""

    def __init__(self, name, promoted=False):
        self.name, self.promoted, self.tensors, self.cases = name, promoted, {}, {}

    def add(self, name, function, compute, inputs, dtypes=(F32,), fixed=(), **attributes):
        """`inputs()` makes the tensors, of which those numbered in `fixed` require no gradient;
        floating ones are converted to each of the dtypes. compute(*inputs) is PyTorch's function.
        """
        assert name not in self.cases, name
        self.cases[name] = {"function": function, "dtypes": [str(d)[6:] for d in dtypes],
                            **attributes}
        for dtype in dtypes:
            GENERATOR.manual_seed(zlib.crc32(f"{self.name}.{name}".encode()))
            originals = inputs()
            xs = [x.to(dtype, copy=True) if is_floating(x) else x for x in originals]
            for i, x in enumerate(originals):
                if x is not None:
                    self.tensors[f"{name}/x{i}"] = smallest(x) if is_floating(x) else x
                if is_floating(x) and i not in fixed:
                    xs[i].requires_grad_()
            self.record_results(name, dtype, xs, self.call(compute, xs, dtype))

    def call(self, compute, xs, dtype):
        promote = self.promoted and dtype == BF16
        ys = compute(*(x.float() if promote and is_floating(x) else x for x in xs))
        ys = list(ys) if isinstance(ys, (tuple, list)) else [ys]
        return [y.to(dtype) if promote and is_floating(y) else y for y in ys]

    def record_results(self, name, dtype, xs, ys):
        case = f"{name}/{str(dtype)[6:]}"
        gradients = {i: randn(*y.shape) for i, y in enumerate(ys) if y.requires_grad}
        if gradients:
            torch.autograd.backward([ys[i] for i in gradients],
                                    [dy.to(ys[i].dtype) for i, dy in gradients.items()])
        for i, dy in gradients.items():
            self.tensors[f"{name}/dy{i}"] = smallest(dy)
        for i, y in enumerate(ys):
            self.tensors[f"{case}/y{i}"] = y.to(torch.uint8) if y.dtype == torch.bool else y
        for i, x in enumerate(xs):
            if gradients and x is not None and x.requires_grad:
                dx = torch.zeros_like(x) if x.grad is None else x.grad
                self.tensors[f"{case}/dx{i}"] = smallest(dx)

    def write(self, folder):
        """Returns the file's size."""
        path = f"{folder}/{self.name}.safetensors"
        write_safetensors(path, self.tensors,
                          {"cases": json.dumps(self.cases, separators=(",", ":")),
                           "made_by": f"export_operators.py, PyTorch {torch.__version__}"})
        return os.path.getsize(path)
