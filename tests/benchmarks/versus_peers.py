#!/usr/bin/env python3
"""Times all-reduces of this project against those of its peers, in turn, on this machine.

    bazel run //tests/benchmarks:versus_peers [-- --repeats 3 --ranks 2,4 --first 4 --last 67108864]

Float32 sums in place, checked; microseconds, medians over the repeats of medians. Ours "direct" are
buffers that the group allocated, "staged" are the caller's own. The floors are plain loops over
shared memory without any library (peers/floor_all_reduce.cc). Open MPI's best is, for each size, the
best of its default and of each setting in MPI_SETTINGS. Gloo is its own ring, torch is
torch.distributed over it.

The second table has what is asked for as ratios, ours over theirs, at most what stands above them;
what isn't reached has a "!".
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from disturbance import cpu_seconds, print_disturbance

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = "ddp/collectives_bench"
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                   OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")

# What speeds up Open MPI's all-reduce in shared memory at some size, beside its default: less
# hand-shaking, larger pieces through its own buffers, one message in place of two, none of them twice.
TUNED = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm")
EAGER = ("--mca", "btl_vader_eager_limit", "65536")
MPI_SETTINGS = {
    "default": (),
    "eager": EAGER,
    "large pieces": ("--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "btl_vader_max_send_size", "131072"),
    "recursive doubling": (*TUNED, "3", *EAGER),
    "reduce-scatter and all-gather": (*TUNED, "6"),
}


def ours(backend, *options):
    return lambda ranks, sizes, seconds: [
        BENCH, f"--nproc={ranks}", f"--backend={backend}", f"--sizes={sizes}", f"--seconds={seconds}", "--json", *options]


def mpi(setting):
    return lambda ranks, sizes, seconds: [
        "mpirun", "-np", str(ranks), *MPI_SETTINGS[setting], f"{HERE}/mpi_all_reduce", sizes, str(seconds)]


def floor(kind):
    return lambda ranks, sizes, seconds: [f"{HERE}/floor_all_reduce", kind, str(ranks), sizes, str(seconds)]


def torch(ranks, sizes, seconds):
    first, last, factor = map(int, sizes.split(":"))
    every = [first]
    while every[-1] * factor <= last:
        every.append(every[-1] * factor)
    return [sys.executable, f"{HERE}/peers/torch_all_reduce.py", str(ranks), ",".join(map(str, every)), str(seconds)]


def gloo(ranks, sizes, seconds):
    return [f"{HERE}/gloo_all_reduce", str(ranks), sizes, str(seconds)]


# By the columns' names.
PROGRAMS = {
    "auto direct": ours("auto", "--direct"),
    "auto staged": ours("auto"),
    "shm direct": ours("shm", "--direct"),
    "shm staged": ours("shm"),
    "our gloo": ours("gloo"),
    "our mpi": ours("mpi"),
    "floor direct": floor("direct"),
    "floor staged": floor("staged"),
    "Gloo": gloo,
    "torch": torch,
    **{f"Open MPI, {setting}": mpi(setting) for setting in MPI_SETTINGS},
}
COLUMNS = [name for name in PROGRAMS if not name.startswith("Open MPI")] + ["MPI default", "MPI best"]


def run(command):
    """Microseconds by bytes."""
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["bytes"]: line["us_median"] for line in lines}


def measure(ranks, arguments):
    """Alternates all programs, so that they meet the same weather: microseconds by column and bytes."""
    sizes = f"{arguments.first}:{arguments.last}:4"
    runs = {name: [] for name in PROGRAMS if arguments.only in name}
    for _ in range(arguments.repeats):
        for name, results in runs.items():
            results.append(run(PROGRAMS[name](ranks, sizes, arguments.seconds)))
    times = {name: {size: statistics.median(result[size] for result in results) for size in results[0]}
             for name, results in runs.items()}
    settings = [by_size for name, by_size in times.items() if name.startswith("Open MPI")]
    if settings:
        times["MPI default"] = settings[0]
        times["MPI best"] = {size: min(by_size[size] for by_size in settings) for size in settings[0]}
    return times


def text_of(num_bytes):
    for unit, factor in (("Mi", 2**20), ("Ki", 2**10)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:g} {unit}"
    return str(num_bytes)


def print_times(ranks, times):
    columns = [name for name in COLUMNS if name in times]
    print(f"\n{ranks} ranks, microseconds\n{'bytes':>8}" + "".join(f"{name:>13}" for name in columns))
    for size in times[columns[0]]:
        print(f"{text_of(size):>8}" + "".join(f"{times[name][size]:13.2f}" for name in columns))


# What is asked for: title, at most, from and to bytes, and what ours and theirs are.
KI, MI = 2**10, 2**20
WANTED = {
    2: [("staged, us", 1.0, 4, KI, "staged", lambda at: 1.0),
        ("staged / MPI best", 1.0, KI, 64 * MI, "staged", lambda at: at("MPI best")),
        ("staged / least", 1.5, 64 * KI, 64 * MI, "staged", lambda at: min(at("floor staged"), at("MPI best"))),
        ("direct / floor", 1.5, 64 * KI, 64 * MI, "direct", lambda at: at("floor direct"))],
    4: [("staged / MPI", 1.0, KI, KI, "staged", lambda at: at("MPI best"))],
}


def print_ratios(ranks, times):
    if ranks not in WANTED or not all(name in times for name in COLUMNS if name.split()[-1] in ("best", "direct", "staged")):
        return
    columns = [(backend, *row) for backend in ("auto", "shm") for row in WANTED[ranks]]
    print(f"\n{ranks} ranks, against what is asked for\n{'':8}" + "".join(f"{c[0] + ' ' + c[1]:>24}" for c in columns))
    print(f"{'at most':>8}" + "".join(f"{c[2]:24.2f}" for c in columns))
    for size in times["MPI best"]:
        row = ""
        for backend, _, most, first, last, kind, theirs in columns:
            ratio = times[f"{backend} {kind}"][size] / theirs(lambda name: times[name][size])
            row += f"{ratio:23.2f}{'!' if ratio > most else ' '}" if first <= size <= last else f"{'-':>23} "
        print(f"{text_of(size):>8}" + row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--first", type=int, default=4, help="bytes; each size is four times the one before")
    parser.add_argument("--last", type=int, default=64 * MI)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each size, about")
    parser.add_argument("--only", default="", help="part of the programs' names")
    arguments = parser.parse_args()
    before, start = cpu_seconds(), time.monotonic()
    for ranks in map(int, arguments.ranks.split(",")):
        times = measure(ranks, arguments)
        print_times(ranks, times)
        print_ratios(ranks, times)
    print_disturbance(before, time.monotonic() - start)


if __name__ == "__main__":
    main()
