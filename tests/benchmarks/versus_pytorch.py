#!/usr/bin/env python3
"""Times this project's trainer against PyTorch's DDP, in turn, on this machine.

    bazel run //tests/benchmarks:versus_pytorch [-- --repeats 5 --models mlp,gpt --ranks 1 --threads 1]

Same models, batch sizes, optimizer and number of steps, random values for data, one thread a rank.
Machines are shared and noisy: each figure is the median over the repeats, and what counts are the
ratios, PyTorch's figure over ours. A step is zero-grad, forward, backward, optimizer and reading the
loss; ours also takes the batch from its loader within that time. The start is that of the whole job:
from the command to rank 0's first loss.

Afterwards ours alone, one rank, on one thread against --threads of them (1: left out), and the
tutorial from start to end.
"""
import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from disturbance import cpu_seconds, print_disturbance

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = "launch/train"
TUTORIAL = "launch/tutorial"
ONE_THREAD = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


@dataclasses.dataclass
class Model:
    name: str  # ours
    batch_size: int
    steps: int
    warmup: int  # PyTorch's steps before those that are timed
    optimizer: tuple = ("--optimizer=sgd", "--learning_rate=0.01", "--momentum=0")
    # What one rank is asked to be against PyTorch without DDP, and two threads against one.
    speed: float = 1.2
    memory: float = 4
    threads: float = None


ADAMW = ("--optimizer=adamw", "--learning_rate=0.0003", "--weight_decay=0.01", "--clip_norm=0", "--warmup_steps=0")

# By the peer's names.
MODELS = {
    "linear52": Model("linear", 10, 3000, 300, speed=20),
    "mlp": Model("mlp", 64, 120, 15, speed=1.25),
    "cnn": Model("convnet", 64, 80, 10, threads=1.7),
    "resnet": Model("resnet", 64, 25, 5, memory=3),
    "gpt": Model("gpt", 4, 25, 5, ADAMW, speed=1.4, memory=3, threads=1.7),
}
WANTED_TUTORIAL = 30


def run(command):
    """Runs a command to its end and returns its output and its seconds."""
    start = time.clock_gettime(time.CLOCK_MONOTONIC)
    done = subprocess.run(command, env=ONE_THREAD, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout, start, time.clock_gettime(time.CLOCK_MONOTONIC) - start


def pytorch(model, ranks):
    command = [sys.executable, f"{HERE}/peers/torch_train.py", "--model", model, "--world", str(ranks),
               "--steps", str(MODELS[model].steps), "--warmup", str(MODELS[model].warmup), "--quiet"]
    output, start, _ = run(command + (["--plain"] if ranks == 1 else []))
    line = next(line for line in output.splitlines() if line.startswith("RESULT "))
    result = json.loads(line.removeprefix("RESULT "))
    return {"step": result["step_ms_median"] / 1e3, "memory": result["peak_rss_mb_max"] * 2**20,
            "first_loss": result["marks"]["first_step"] - start}


def ours(model, ranks, threads=1):
    known = MODELS[model]
    with tempfile.TemporaryDirectory() as folder:
        summary = f"{folder}/summary.json"
        run([TRAIN, f"--nproc_per_node={ranks}", f"--model={known.name}", "--data=synthetic",
             f"--batch_size={known.batch_size}", f"--max_steps={known.steps + known.warmup}", f"--threads={threads}",
             *known.optimizer, f"--summary_json={summary}"])
        with open(summary) as file:
            result = json.load(file)
    return {"step": result["step_seconds_median"], "memory": max(result["peak_rss_bytes"]),
            "first_loss": result["time_to_first_loss_seconds"]}


def medians(results):
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def compare(model, ranks, repeats):
    """Alternates the two, so that both meet the same weather, and prints a row."""
    pairs = [(pytorch(model, ranks), ours(model, ranks)) for _ in range(repeats)]
    theirs, mine = (medians(side) for side in zip(*pairs))
    speed, memory, start = (theirs[key] / mine[key] for key in ("step", "memory", "first_loss"))
    wanted = f"{MODELS[model].speed:g} / {MODELS[model].memory:g}" if ranks == 1 else "-"
    print(f"{model:9} {ranks:5}  {theirs['step'] * 1e3:9.4f} {mine['step'] * 1e3:9.4f} {speed:7.2f}"
          f"  {theirs['memory'] / 2**20:8.0f} {mine['memory'] / 2**20:8.0f} {memory:7.2f}"
          f"  {theirs['first_loss']:8.3f} {mine['first_loss']:8.3f} {start:7.1f}   {wanted}", flush=True)


def compare_threads(model, threads, repeats):
    pairs = [(ours(model, 1, 1), ours(model, 1, threads)) for _ in range(repeats)]
    one, more = (medians(side)["step"] for side in zip(*pairs))
    wanted = MODELS[model].threads if threads == 2 else None
    print(f"{model:9} {threads:7}  {one * 1e3:10.4f} {more * 1e3:9.4f} {one / more:7.2f}   {wanted or '-'}", flush=True)


def compare_tutorial(repeats):
    pairs = [(run([sys.executable, f"{HERE}/peers/tutorial_ddp.py"])[2], run([TUTORIAL])[2])
             for _ in range(repeats)]
    theirs, mine = (statistics.median(side) for side in zip(*pairs))
    print(f"\nThe tutorial, two ranks, from start to end: PyTorch {theirs:.2f} s, ours {mine:.3f} s, "
          f"ratio {theirs / mine:.1f} (wanted: {WANTED_TUTORIAL})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--threads", type=int, default=2, help="of ours, against one")
    arguments = parser.parse_args()
    models = arguments.models.split(",")
    before, start = cpu_seconds(), time.monotonic()
    print("                   step, ms                     peak memory a rank, MiB     to first loss, s"
          "              wanted speed / memory")
    print("model     ranks    PyTorch      ours   ratio   PyTorch     ours   ratio   PyTorch     ours   ratio")
    for model in models:
        for ranks in arguments.ranks.split(","):
            compare(model, int(ranks), arguments.repeats)
    if arguments.threads > 1:
        print("\n                   step of ours, ms\nmodel     threads  one thread      more   ratio   wanted")
        for model in models:
            compare_threads(model, arguments.threads, arguments.repeats)
    compare_tutorial(arguments.repeats)
    print_disturbance(before, time.monotonic() - start)


if __name__ == "__main__":
    main()
