#!/usr/bin/env python3
"""Makes the golden trainings of goldens/ with PyTorch 1.13: DistributedDataParallel over gloo.

    export_training.py DIR [MODEL...]            writes the models' files into DIR, all without names
    export_training.py --compare DIR OTHER_DIR   largest differences between two such directories

Everything follows from seeds. Each training also runs in float64 from the same initial values:
how far the two come apart is the noise that a tolerance must leave room for. README.md describes
the files.
"""

import collections
import json
import os
import socket
import struct
import sys
import tempfile

os.environ["OMP_NUM_THREADS"] = "1"
# pylint: disable=wrong-import-position
import torch
from torch import distributed, multiprocessing, nn

from golden_models import BATCHES, GOLDENS
from operator_goldens import write_safetensors

STEPS = 20
WORLD_SIZES = (1, 2, 4)
OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "sgdm": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


# --- trainings ------------------------------------------------------------------------------------


def train(golden, optimizer, model, forward, batch_of_step):
    """Returns the losses and the state after the last step."""
    update = OPTIMIZERS[optimizer](model.parameters(), **golden.hyper[optimizer])
    losses = []
    for step in range(STEPS):
        inputs, targets = batch_of_step(step)
        update.zero_grad()
        loss = golden.loss(forward(inputs), targets)
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses, {name: value.detach().clone() for name, value in state_of(model).items()}


def state_of(model):
    """Parameters, then buffers."""
    return dict(model.named_parameters()) | dict(model.named_buffers())


def train_replicated(golden, optimizer, dtype, rank):
    """Returns the losses of all ranks, and this rank's state."""
    model = golden.model(dtype)
    inputs, targets = golden.data(dtype)
    losses, state = train(
        golden,
        optimizer,
        model,
        nn.parallel.DistributedDataParallel(model),
        lambda step: (inputs[rank, step % BATCHES], targets[rank, step % BATCHES]),
    )
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    all_weights = gather(weights)
    assert all(torch.equal(weights, other) for other in all_weights), "ranks' weights differ"
    return [one.tolist() for one in gather(torch.tensor(losses, dtype=torch.float64))], state


def gather(tensor):
    every = [torch.empty_like(tensor) for _ in range(distributed.get_world_size())]
    distributed.all_gather(every, tensor)
    return every


def train_joined(golden, optimizer, world_size):
    """The same in one process, on the ranks' batches put together."""
    inputs, targets = golden.data(torch.float32)
    model = golden.model(torch.float32)

    def joined(step):
        batch = step % BATCHES
        return inputs[:world_size, batch].flatten(0, 1), targets[:world_size, batch].flatten(0, 1)

    return train(golden, optimizer, model, model, joined)


def run_rank(rank, world_size, names, path):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=world_size)
    results = {
        (name, optimizer, dtype): train_replicated(GOLDENS[name], optimizer, dtype, rank)
        for name in names
        for optimizer in OPTIMIZERS
        for dtype in (torch.float32, torch.float64)
    }
    if rank == 0:
        torch.save(results, path)
    distributed.barrier()
    distributed.destroy_process_group()


def run_ranks(world_size, names):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "results")
        multiprocessing.spawn(run_rank, (world_size, names, path), nprocs=world_size)
        return torch.load(path)


def first_gradients(golden, dtype):
    model = golden.model(dtype)
    inputs, targets = golden.data(dtype)
    golden.loss(model(inputs[0, 0]), targets[0, 0]).backward()
    return {name: value.grad for name, value in model.named_parameters()}


# --- deviations -----------------------------------------------------------------------------------


def split_keys(name, value):
    """The value without attention's key bias, and this bias: its true gradient is 0."""
    if not name.endswith("qkv.bias"):
        return value, value.new_empty(0)
    query, key, values = value.chunk(3)
    return torch.cat([query, values]), key


def largest(tensor):
    return tensor.abs().max().item() if tensor.numel() else 0.0


def state_deviation(state, other):
    """Largest differences: parameters, key biases, running statistics."""
    worst = collections.defaultdict(float)
    for name, value in state.items():
        kind = "statistic" if "running_" in name else "weight"
        kept, key = split_keys(name, value.double() - other[name].double())
        worst[kind] = max(worst[kind], largest(kept))
        if key.numel():
            worst["key_bias"] = max(worst["key_bias"], largest(key))
    return worst


def gradient_deviation(golden):
    """Relative to the tensor's largest gradient."""
    exact = first_gradients(golden, torch.float64)
    worst = 0.0
    for name, value in first_gradients(golden, torch.float32).items():
        kept, _ = split_keys(name, value - exact[name])
        worst = max(worst, largest(kept) / largest(exact[name]))
    return worst


def rounded(values, digits):
    return [float(f"{value:.{digits}g}") for value in values]


def describe(golden, optimizer, world_size, single, double):
    """What losses.json says of one training."""
    (losses, state), (exact_losses, exact_state) = single, double
    mean = [sum(step) / world_size for step in zip(*losses)]
    exact_mean = [sum(step) / world_size for step in zip(*exact_losses)]
    loss = max(abs(a - b) for pair in zip(losses, exact_losses) for a, b in zip(*pair))
    noise = state_deviation(state, exact_state)
    record = {
        "local": [rounded(rank, 9) for rank in losses],
        "mean": rounded(mean, 10),
        "mean_f64": rounded(exact_mean, 13),
        "dev_loss_f32_f64": loss,
        **{f"dev_{kind}_f32_f64": value for kind, value in noise.items()},
    }
    if golden.has_one_process:
        _, joined = train_joined(golden, optimizer, world_size)
        record["dev_weight_one_process"] = state_deviation(state, joined)["weight"]
    return {
        key: float(f"{value:.3g}") if key.startswith("dev_") else value
        for key, value in record.items()
    }


# --- files ----------------------------------------------------------------------------------------

DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        values = file.read()
    header.pop("__metadata__", None)
    return {
        name: torch.frombuffer(
            bytearray(values[slice(*entry["data_offsets"])]), dtype=DTYPES[entry["dtype"]]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


def write_model(directory, name, runs):
    """Writes the model's files; returns its part of losses.json."""
    golden = GOLDENS[name]
    inputs, targets = golden.data(torch.float32)
    start, final = state_of(golden.model(torch.float32)), {}
    record = {"note": golden.note, "dev_grad0_f32_f64": float(f"{gradient_deviation(golden):.3g}")}
    record["optimizers"] = {}
    for optimizer in OPTIMIZERS:
        entry = record["optimizers"][optimizer] = {"hyper": golden.hyper[optimizer]}
        for world_size in WORLD_SIZES:
            single = runs[world_size][name, optimizer, torch.float32]
            double = runs[world_size][name, optimizer, torch.float64]
            entry[f"w{world_size}"] = describe(golden, optimizer, world_size, single, double)
            final |= {f"{optimizer}.w{world_size}/{key}": v for key, v in single[1].items()}
    files = {
        "init": start,
        "data": {"x": inputs, "y": targets},
        "grad0": first_gradients(golden, torch.float32),
        "final": final,
    }
    for kind, tensors in files.items():
        write_safetensors(os.path.join(directory, f"{name}.{kind}.safetensors"), tensors, {})
    return record


def load_losses(directory):
    path = os.path.join(directory, "losses.json")
    if not os.path.exists(path):
        return {"models": {}}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def print_deviations(name, record):
    """The rows of README.md's table: the largest over the world sizes."""
    print(f"{name}: first gradients {record['dev_grad0_f32_f64']:.1e}")
    for optimizer, entry in record["optimizers"].items():
        worlds = [entry[f"w{world_size}"] for world_size in WORLD_SIZES]
        kinds = [key for key in worlds[0] if key.startswith("dev_")]
        cells = [f"{kind[4:]} {max(world[kind] for world in worlds):.1e}" for kind in kinds]
        ends = f"loss {worlds[0]['mean'][0]:.3f} to {worlds[0]['mean'][-1]:.3f}"
        print(f"  {optimizer}: {', '.join(cells)}, {ends}")


def export(directory, names):
    os.makedirs(directory, exist_ok=True)
    runs = {world_size: run_ranks(world_size, names) for world_size in WORLD_SIZES}
    document = load_losses(directory)
    document |= {"torch": torch.__version__, "steps": STEPS, "batches": BATCHES}
    for name in names:
        document["models"][name] = write_model(directory, name, runs)
        print_deviations(name, document["models"][name])
    with open(os.path.join(directory, "losses.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, separators=(",", ":"))
        file.write("\n")


def compare(directory, other):
    for file in sorted(os.listdir(directory)):
        if not file.endswith(".safetensors"):
            continue
        ours, theirs = (read_safetensors(os.path.join(d, file)) for d in (directory, other))
        assert ours.keys() == theirs.keys(), f"{file}: other names"
        worst = max(largest(ours[name].double() - theirs[name]) for name in ours)
        print(f"{file}: {worst:.1e}")


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "--compare":
        return compare(*arguments[1:])
    unknown = set(arguments[1:]) - GOLDENS.keys()
    if not arguments or arguments[0].startswith("-") or unknown:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    return export(arguments[0], arguments[1:] or list(GOLDENS))


if __name__ == "__main__":
    main(sys.argv[1:])
