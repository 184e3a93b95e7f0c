"""Reads checkpoints, and writes weights, with nothing but Python's own library.

  checkpoints.py check DIR FILE   DIR is a sound checkpoint whose weights are FILE's
  checkpoints.py write FILE       weights of a linear model, 5 to 2: 0, 1/4, 1/2, ...
  checkpoints.py same FILE FILE   both hold the same weights
"""

import json
import os
import struct
import sys
import zlib

SIZES = {"F32": 4, "I64": 8}


def read_safetensors(path):
    """Names to (dtype, shape, bytes)."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors, end = {}, 0
    for name, entry in header.items():
        begin, end_of_it = entry["data_offsets"]
        assert begin == end, f"{name} begins at {begin}, expected {end}"
        end = end_of_it
        size = SIZES[entry["dtype"]]
        for extent in entry["shape"]:
            size *= extent
        assert size == end - begin, f"{name} has {end - begin} bytes, expected {size}"
        tensors[name] = (entry["dtype"], entry["shape"], data[8 + length + begin : 8 + length + end])
    assert end == len(data) - 8 - length
    return tensors


def check(folder, weights):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    assert manifest["format"] == 1
    files = manifest["files"]
    assert set(os.listdir(folder)) == set(files) | {"manifest.json"}
    for name, entry in files.items():
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        assert (len(data), zlib.crc32(data)) == (entry["bytes"], entry["crc32"]), name
    with open(os.path.join(folder, "state.json"), encoding="utf-8") as file:
        state = json.load(file)
    assert state["step"] == 3 and state["epoch"] == 0 and state["samples_in_epoch"] == 24, state
    assert state["settings"]["model"] == "linear"
    model = read_safetensors(os.path.join(folder, "model.safetensors"))
    assert model == read_safetensors(weights)
    assert {name: tensor[1] for name, tensor in model.items()} == {"weight": [2, 5], "bias": [2]}
    optimizer = read_safetensors(os.path.join(folder, "optimizer.safetensors"))
    assert struct.unpack("<q", optimizer["weight.step"][2]) == (3,)
    assert optimizer["weight.exp_avg"][:2] == ("F32", [2, 5])


def write(path):
    values = struct.pack("<12f", *(i / 4 for i in range(12)))
    header = json.dumps({
        "__metadata__": {"format": "pt"},
        "bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "weight": {"dtype": "F32", "shape": [2, 5], "data_offsets": [8, 48]},
    }).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + values)


def same(one, other):
    assert read_safetensors(one) == read_safetensors(other)


if __name__ == "__main__":
    {"check": check, "write": write, "same": same}[sys.argv[1]](*sys.argv[2:])
