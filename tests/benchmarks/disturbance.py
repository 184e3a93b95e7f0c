"""How much others used a machine while something was measured on it."""

import os
import resource


def cpu_seconds():
    """Of the whole machine, and of the programs that this one has run to their end."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    idle_and_waiting = ticks[3] + ticks[4]
    return (sum(ticks) - idle_and_waiting) / os.sysconf("SC_CLK_TCK"), children.ru_utime + children.ru_stime


def print_disturbance(before, seconds):
    """`before`: cpu_seconds() of `seconds` ago."""
    machine, mine = (after - earlier for after, earlier in zip(cpu_seconds(), before))
    share = max(0, machine - mine) / seconds / os.cpu_count()
    print(f"\nOthers used {share:.0%} of the machine meanwhile"
          f"{': repeat this on a quiet machine, the times mean little' if share > 0.1 else ''}")
