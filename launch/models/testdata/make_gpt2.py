#!/usr/bin/env python3
"""Makes gpt2.safetensors: a tiny GPT-2 with random weights, under the names and in the layout of
Hugging Face's GPT2LMHeadModel, some token ids, and the logits that PyTorch gives for them.

    python3 make_gpt2.py     # with Debian's python3-torch; writes beside itself
"""
import json
import os
import struct

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB = 2, 24, 3, 12, 40


def conv1d(inputs, outputs):
    """A linear layer as the file has it: the matrix is [in, out]."""
    return torch.randn(inputs, outputs) * 0.2, torch.randn(outputs) * 0.1


def norm():
    return 1 + torch.randn(WIDTH) * 0.1, torch.randn(WIDTH) * 0.1


def make_weights():
    weights = {"wte.weight": torch.randn(VOCAB, WIDTH) * 0.3, "wpe.weight": torch.randn(CONTEXT, WIDTH) * 0.3}
    parts = {"ln_1": norm, "attn.c_attn": lambda: conv1d(WIDTH, 3 * WIDTH),
             "attn.c_proj": lambda: conv1d(WIDTH, WIDTH), "ln_2": norm,
             "mlp.c_fc": lambda: conv1d(WIDTH, 4 * WIDTH), "mlp.c_proj": lambda: conv1d(4 * WIDTH, WIDTH)}
    for layer in range(LAYERS):
        for part, make in parts.items():
            weights[f"h.{layer}.{part}.weight"], weights[f"h.{layer}.{part}.bias"] = make()
        weights[f"h.{layer}.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril()
    weights["ln_f.weight"], weights["ln_f.bias"] = norm()
    return weights


def forward(weights, ids):
    def layer(name, x):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    def layer_norm(name, x):
        return F.layer_norm(x, (WIDTH,), weights[name + ".weight"], weights[name + ".bias"])

    batch, time = ids.shape
    mask = torch.ones(time, time, dtype=torch.bool).triu(1)
    x = weights["wte.weight"][ids] + weights["wpe.weight"][:time]
    for i in range(LAYERS):
        q, k, v = layer(f"h.{i}.attn.c_attn", layer_norm(f"h.{i}.ln_1", x)).split(WIDTH, -1)
        q, k, v = (part.view(batch, time, HEADS, -1).transpose(1, 2) for part in (q, k, v))
        scores = (q @ k.transpose(2, 3)) * (WIDTH // HEADS) ** -0.5
        attended = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + layer(f"h.{i}.attn.c_proj", attended.transpose(1, 2).reshape(batch, time, WIDTH))
        hidden = F.gelu(layer(f"h.{i}.mlp.c_fc", layer_norm(f"h.{i}.ln_2", x)), approximate="tanh")
        x = x + layer(f"h.{i}.mlp.c_proj", hidden)
    return layer_norm("ln_f", x) @ weights["wte.weight"].t()


def write_safetensors(path, tensors, metadata):
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        blob = tensor.contiguous().numpy().tobytes()
        dtype = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


torch.manual_seed(3)
weights = make_weights()
ids = torch.randint(VOCAB, (2, CONTEXT))
here = os.path.dirname(os.path.abspath(__file__))
write_safetensors(f"{here}/gpt2.safetensors", {f"transformer.{k}": v for k, v in weights.items()} |
                  {"lm_head.weight": weights["wte.weight"]}, {"format": "pt", "n_head": str(HEADS)})
write_safetensors(f"{here}/gpt2_logits.safetensors", {"ids": ids, "logits": forward(weights, ids)}, {})
