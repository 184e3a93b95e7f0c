"""The models of the golden trainings, their batches and hyper-parameters; all follow from seeds."""

import dataclasses
from typing import Callable

import torch
from torch import nn
from torch.nn import functional

BATCHES = 5
MAX_RANKS = 4
CLASSES = 10


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        batch, time, width = x.shape
        per_head = (batch, time, self.heads, width // self.heads)
        q, k, v = (part.view(per_head).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        scores = q @ k.transpose(2, 3) * per_head[-1] ** -0.5
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(batch, time, width)

    def forward(self, x):
        x = x + self.proj(self.attend(self.ln1(x)))
        return x + self.out(functional.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.lnf = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.lnf(x), self.wte.weight)


class ConvNet(nn.Module):
    def __init__(self, channels, extent):
        super().__init__()
        self.c1 = nn.Conv2d(1, channels, 3, padding=1)
        self.c2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.f1 = nn.Linear(2 * channels * (extent // 4) ** 2, 8 * channels)
        self.f2 = nn.Linear(8 * channels, CLASSES)

    def forward(self, x):
        x = functional.max_pool2d(self.c1(x).relu(), 2)
        x = functional.max_pool2d(self.c2(x).relu(), 2)
        return self.f2(self.f1(x.flatten(1)).relu())


class ResidualBlock(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.c1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(after)
        self.c2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(after)
        self.skip = None
        if stride != 1 or before != after:
            self.skip = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        y = self.b2(self.c2(self.b1(self.c1(x)).relu()))
        return (y + (x if self.skip is None else self.skip(x))).relu()


class ResNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.c = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.b = nn.BatchNorm2d(channels)
        self.r = nn.Sequential(
            ResidualBlock(channels, channels, 1),
            ResidualBlock(channels, 2 * channels, 2),
            ResidualBlock(2 * channels, 2 * channels, 1),
        )
        self.f = nn.Linear(2 * channels, CLASSES)

    def forward(self, x):
        return self.f(self.r(self.b(self.c(x)).relu()).mean((2, 3)))


def build_mlp():
    return nn.Sequential(
        nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, CLASSES)
    )


@torch.no_grad()
def build_gpt():
    """No value is exactly 0 or 1: a bias or gain that is forgotten shows."""
    model = Gpt(layers=2, width=32, heads=2, context=16, vocab=64)
    for name, value in model.named_parameters():
        value.copy_(torch.randn(value.shape) * (0.1 if value.dim() == 2 else 0.05))
        if "ln" in name and name.endswith("weight"):
            value.add_(1)
    return model


@torch.no_grad()
def build_resnet():
    """Gains, biases and running statistics are no plain 0 or 1 either."""
    model = ResNet(channels=4)
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(0, 0.1)
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.5, 1.5)
    return model


# --- batches: first the rank, then the batch, then the batch's own axes ---------------------------


def draw(*shape):
    return lambda generator: torch.randn(MAX_RANKS, BATCHES, *shape, generator=generator)


def choose(count, *shape):
    return lambda generator: torch.randint(
        count, (MAX_RANKS, BATCHES, *shape), generator=generator
    )


def pairs(inputs, targets):
    return lambda generator: (inputs(generator), targets(generator))


def next_tokens(generator):
    text = choose(64, 2, 17)(generator)
    return text[..., :-1].contiguous(), text[..., 1:].contiguous()


def cross_entropy(output, target):
    return functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


IMAGES = pairs(draw(6, 1, 8, 8), choose(CLASSES, 6))


# --- what is trained ------------------------------------------------------------------------------


@dataclasses.dataclass
class Golden:
    note: str
    seed: int  # of the weights; the batches have the next ten's
    build: Callable
    batches: Callable
    hyper: dict  # by optimizer
    loss: Callable = cross_entropy
    has_one_process: bool = True  # W ranks equal one process on the joined batch

    def model(self, dtype):
        torch.manual_seed(self.seed)
        return self.build().to(dtype)

    def data(self, dtype):
        both = self.batches(torch.Generator().manual_seed(self.seed + 10))
        return [part.to(dtype) if part.is_floating_point() else part for part in both]


def hyper(sgd, momentum, adam, sgd_decay=0.001):
    return {
        "sgd": {"lr": sgd},
        "sgdm": {"lr": momentum, "momentum": 0.9, "weight_decay": sgd_decay},
        "adam": {"lr": adam},
        "adamw": {"lr": adam, "weight_decay": 0.1},
    }


GOLDENS = {
    "linear52": Golden(
        "Linear(5, 2), mean squared error",
        11,
        lambda: nn.Linear(5, 2),
        pairs(draw(10, 5), draw(10, 2)),
        hyper(0.01, 0.01, 0.01, sgd_decay=0.01),
        loss=functional.mse_loss,
    ),
    "mlp": Golden(
        "20-32-32-10 with ReLU, cross-entropy",
        12,
        build_mlp,
        pairs(draw(8, 20), choose(CLASSES, 8)),
        hyper(0.1, 0.05, 0.003),
    ),
    "gpt": Golden(
        "2 blocks of width 32, 2 heads, context 16, vocabulary 64, cross-entropy",
        13,
        build_gpt,
        next_tokens,
        hyper(0.1, 0.05, 0.001),
    ),
    "convnet": Golden(
        "4 and 8 channels on 1x8x8 images, cross-entropy",
        14,
        lambda: ConvNet(channels=4, extent=8),
        IMAGES,
        hyper(0.1, 0.05, 0.003),
    ),
    "resnet": Golden(
        "4, 8 and 8 channels on 1x8x8 images, cross-entropy",
        17,
        build_resnet,
        IMAGES,
        hyper(0.05, 0.02, 0.003),
        has_one_process=False,
    ),
}
