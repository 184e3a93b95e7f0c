#!/usr/bin/env python3
"""How long a restart takes: kill -9 of one of four ranks that train under //launch:run.

    bazel run //tests/benchmarks:restart [-- RUNS]

Prints, as medians over RUNS (5): from the kill to the end of the other ranks; and to the first step
of the restarted ranks, which go on from the last checkpoint.
"""
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

COMMAND = ['launch/run', '--nproc_per_node=4', '--max_restarts=1', 'launch/train', '--model=mlp',
           '--data=digits', '--epochs=0', '--max_steps=100000', '--log_every=1',
           '--checkpoint_every=5']


def children(pid):
    """The processes that `pid` has started."""
    with open(f'/proc/{pid}/task/{pid}/children') as file:
        return [int(child) for child in file.read().split()]


def ranks(agent):
    """The ranks among the agent's children."""
    def is_rank(pid):
        with open(f'/proc/{pid}/environ', 'rb') as file:
            return b'\0LOCAL_RANK=' in b'\0' + file.read()
    return [pid for pid in children(agent) if is_rank(pid)]


def await_line(stream, words):
    """Reads lines until one has all the words."""
    for line in stream:
        if all(word in line for word in words):
            return
    raise SystemExit(f'the training ended before it printed {words}')


def is_alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


def measure():
    """Seconds to the end of the others, and to the next step."""
    with tempfile.TemporaryDirectory() as directory:
        run = subprocess.Popen(COMMAND + [f'--checkpoint_dir={directory}'], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        try:
            await_line(run.stdout, ['step 20/'])
            pids = ranks(run.pid)
            start = time.monotonic()
            os.kill(pids[2], signal.SIGKILL)
            while any(is_alive(pid) for pid in pids):
                time.sleep(0.001)
            ended = time.monotonic() - start
            await_line(run.stdout, ['goes on from'])
            await_line(run.stdout, ['step ', 'loss'])
            return ended, time.monotonic() - start
        finally:
            run.terminate()
            run.wait()


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ended, stepped = zip(*(measure() for _ in range(runs)))
    print(f'all ranks had ended after    {statistics.median(ended):.2f} s (wanted: 1)')
    print(f'the next step was done after {statistics.median(stepped):.2f} s (wanted: 3)')


if __name__ == '__main__':
    main()
