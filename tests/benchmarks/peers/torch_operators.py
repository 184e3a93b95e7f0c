#!/usr/bin/env python3
"""Times PyTorch's operators, forward and backward: a JSON line for each, seconds, medians.

    torch_operators.py [--only PART_OF_NAME] [--seconds 0.3] [--threads 1]

The cases of ../operator_cases.cc, under the same names. The gradient of an output is ready; those
of inputs and parameters are cleared, but not freed, before each backward: as ours are.
"""
import argparse
import json
import os
import statistics
import sys
import time

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--only", default="")
arguments.add_argument("--seconds", type=float, default=0.3)
arguments.add_argument("--threads", type=int, default=1)
arguments = arguments.parse_args()
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(arguments.threads)

import torch
import torch.nn.functional as F

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def classes(shape, count):
    return (torch.arange(torch.Size(shape).numel()) * 7919 % count).reshape(shape)


def linear(rows, inputs, outputs):
    leaves = leaf(rows, inputs), leaf(outputs, inputs), leaf(outputs)
    return leaves, lambda: F.linear(*leaves)


def conv(inputs, extent, outputs):
    leaves = leaf(64, inputs, extent, extent), leaf(outputs, inputs, 3, 3), leaf(outputs)
    return leaves, lambda: F.conv2d(*leaves, padding=1)


def unary(function, *shape):
    x = leaf(*shape)
    return (x,), lambda: function(x)


def batch_norm():
    x, weight, bias = leaf(64, 32, 14, 14), leaf(32), leaf(32)
    mean, variance = torch.zeros(32), torch.ones(32)
    return (x, weight, bias), lambda: F.batch_norm(x, mean, variance, weight, bias, training=True)


def layer_norm():
    x, weight, bias = leaf(512, 256), leaf(256), leaf(256)
    return (x, weight, bias), lambda: F.layer_norm(x, (256,), weight, bias)


def cross_entropy(rows, count):
    logits, targets = leaf(rows, count), classes((rows,), count)
    return (logits,), lambda: F.cross_entropy(logits, targets)


def mse():
    x, target = leaf(10, 2), torch.randn(10, 2)
    return (x,), lambda: F.mse_loss(x, target)


def embedding():
    table, ids = leaf(512, 256), classes((4, 128), 512)
    return (table,), lambda: F.embedding(ids, table)


def attention():
    q, k, v = leaf(4, 4, 128, 64), leaf(4, 4, 128, 64), leaf(4, 4, 128, 64)
    mask = torch.ones(128, 128, dtype=torch.bool).triu(1)

    def forward():
        scores = (q @ k.transpose(2, 3)) * 0.125
        return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v

    return (q, k, v), forward


def step(optimizer, count, elements, **options):
    parameters = [leaf(elements) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.randn(elements)
    return optimizer(parameters, **options).step


OPERATORS = {
    "linear 64x1024x1024": lambda: linear(64, 1024, 1024),
    "linear 64x784x1024": lambda: linear(64, 784, 1024),
    "linear 512x256x1024": lambda: linear(512, 256, 1024),
    "linear 10x5x2": lambda: linear(10, 5, 2),
    "conv2d 64x16x28x28 3x3 -> 32": lambda: conv(16, 28, 32),
    "conv2d 64x16x14x14 3x3 -> 32": lambda: conv(16, 14, 32),
    "conv2d 64x1x28x28 3x3 -> 16": lambda: conv(1, 28, 16),
    "maxpool2 64x16x28x28": lambda: unary(lambda x: F.max_pool2d(x, 2), 64, 16, 28, 28),
    "batchnorm2d 64x32x14x14": batch_norm,
    "layernorm 512x256": layer_norm,
    "softmax 16x128x128": lambda: unary(lambda x: x.softmax(-1), 16, 128, 128),
    "gelu tanh 512x1024": lambda: unary(lambda x: F.gelu(x, approximate="tanh"), 512, 1024),
    "gelu erf 512x1024": lambda: unary(F.gelu, 512, 1024),
    "relu 64x1024": lambda: unary(F.relu, 64, 1024),
    "cross_entropy 64x10": lambda: cross_entropy(64, 10),
    "cross_entropy 512x512": lambda: cross_entropy(512, 512),
    "mse 10x2": mse,
    "embedding 512 ids, 512x256": embedding,
    "attention B4 H4 T128 D64": attention,
}

OPTIM = torch.optim
STEPS = {
    "sgd step 10M, 1 tensor": lambda: step(OPTIM.SGD, 1, 10_000_000, lr=1e-3),
    "sgd momentum step 10M, 1 tensor": lambda: step(OPTIM.SGD, 1, 10_000_000, lr=1e-3, momentum=0.9),
    "adam step 10M, 1 tensor": lambda: step(OPTIM.Adam, 1, 10_000_000),
    "adamw step 10M, 1 tensor": lambda: step(OPTIM.AdamW, 1, 10_000_000),
    "adamw step 10M, 40 tensors": lambda: step(OPTIM.AdamW, 40, 250_000),
}


def seconds_of(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def repeats(once):
    return min(2000, max(7, int(arguments.seconds / once)))


def time_operator(name):
    leaves, forward = OPERATORS[name]()
    gradient = torch.randn_like(forward().detach())

    def once():
        for tensor in leaves:
            tensor.grad = None
        there, y = seconds_of(forward)
        return there, seconds_of(lambda: y.backward(gradient))[0]

    once()
    times = [once() for _ in range(repeats(sum(once())))]
    report(name, *(statistics.median(side) for side in zip(*times)))


def time_step(name):
    function = STEPS[name]()
    function()
    times = [seconds_of(function)[0] for _ in range(repeats(seconds_of(function)[0]))]
    report(name, statistics.median(times), 0)


def report(name, forward, backward):
    print(json.dumps({"name": name, "forward": forward, "backward": backward}))
    sys.stdout.flush()


for case in OPERATORS:
    if arguments.only in case:
        time_operator(case)
for case in STEPS:
    if arguments.only in case:
        time_step(case)
