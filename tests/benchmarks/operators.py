#!/usr/bin/env python3
"""Times this project's operators against PyTorch's, in turn, on this machine.

    bazel run //tests/benchmarks:operators [-- --repeats 3 --only conv --threads 1]

Milliseconds, medians over the repeats of medians; a ratio above 1 means that ours is faster. The
last column is how much of the machine's limit ours reaches, forward and backward together: the
time that multiplying at the peak of its registers, or reading and
writing as many bytes in place, takes at least.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = [f"{HERE}/operators_timer"]
PYTORCH = [sys.executable, f"{HERE}/peers/torch_operators.py"]


def run(command, arguments):
    options = [f"--only={arguments.only}", f"--seconds={arguments.seconds}", f"--threads={arguments.threads}"]
    output = subprocess.run(command + options, capture_output=True, text=True)
    if output.returncode:
        sys.exit(f"{' '.join(command)}: exit {output.returncode}\n{output.stderr[-2000:]}")
    return {line["name"]: line for line in map(json.loads, output.stdout.splitlines())}


def median(runs, name, key):
    return statistics.median(one[name][key] for one in runs)


def print_row(name, ours, pytorch):
    mine = [median(ours, name, key) * 1e3 for key in ("forward", "backward")]
    theirs = [median(pytorch, name, key) * 1e3 for key in ("forward", "backward")]
    ratio = sum(theirs) / sum(mine)
    limit = median(ours, name, "limit") * 1e3 / sum(mine)
    print(f"{name:34} {theirs[0]:9.4f} {mine[0]:9.4f}   {theirs[1]:9.4f} {mine[1]:9.4f}  {ratio:7.2f}"
          f" {limit:7.0%}{'   slower' if ratio < 1 else ''}")
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the operators' names")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each operator")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    ours, pytorch = [], []
    for _ in range(arguments.repeats):
        ours.append(run(OURS, arguments))
        pytorch.append(run(PYTORCH, arguments))
    print("                                           forward, ms            backward, ms")
    print("                                     PyTorch      ours     PyTorch      ours    ratio   limit")
    ratios = [print_row(name, ours, pytorch) for name in ours[0]]
    print(f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)} slower than PyTorch's")


if __name__ == "__main__":
    main()
