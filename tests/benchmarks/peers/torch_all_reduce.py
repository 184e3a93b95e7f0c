#!/usr/bin/env python3
"""torch.distributed.all_reduce over Gloo: float32 sums in place, checked, then timed at each size.

    torch_all_reduce.py RANKS SIZE,SIZE,... SECONDS

Measures as all_reduce_peer.cc does; rank 0 prints a JSON object a line.
"""
import json
import os
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def check(rank, ranks, num_elements):
    pattern = (torch.arange(num_elements) % 7).float()
    values = pattern + rank + 1
    dist.all_reduce(values)
    if not torch.equal(values, pattern * ranks + ranks * (ranks + 1) // 2):
        sys.exit(f"rank {rank}: wrong sum of {num_elements}")


def measure(rank, ranks, num_bytes, seconds):
    check(rank, ranks, num_bytes // 4)
    values = torch.zeros(num_bytes // 4)  # stays zero, however often
    for _ in range(3):
        dist.all_reduce(values)
    start = time.perf_counter()
    for _ in range(2):
        dist.all_reduce(values)
    once = (time.perf_counter() - start) / 2
    num_runs = torch.tensor(min(3000, max(5, int(seconds / once))))
    dist.broadcast(num_runs, 0)
    times = []
    dist.barrier()
    cpu_before = time.process_time()
    for _ in range(int(num_runs)):
        start = time.perf_counter()
        dist.all_reduce(values)
        times.append(time.perf_counter() - start)
    cpu = torch.tensor(time.process_time() - cpu_before, dtype=torch.float64)
    dist.all_reduce(cpu)
    if rank == 0:
        print(json.dumps({"bytes": num_bytes, "us_median": sorted(times)[len(times) // 2] * 1e6,
                          "us_cpu_all_ranks": float(cpu) / len(times) * 1e6}), flush=True)


def work(rank, ranks, sizes, seconds, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks, init_method=f"file://{meeting}")
    for num_bytes in sizes:
        measure(rank, ranks, num_bytes, seconds)
    dist.barrier()


def main():
    ranks, sizes, seconds = int(sys.argv[1]), [int(size) for size in sys.argv[2].split(",")], float(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(ranks, sizes, seconds, f"{folder}/meeting"), nprocs=ranks)


if __name__ == "__main__":
    main()
