#!/usr/bin/env python3
"""Golden outputs and gradients of single functions from PyTorch, for operators_test.cc.

    python3 export_operators.py --out goldens/operators

operator_goldens.py describes the files.
"""
import argparse
import os

os.environ["OMP_NUM_THREADS"] = "1"
import torch

import function_cases
import layer_cases


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument("--out", required=True)
    folder = parser.parse_args().out
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    for make in layer_cases.FAMILIES + function_cases.FAMILIES:
        family = make()
        size = family.write(folder)
        print(f"{family.name:14s} {len(family.cases):4d} cases {size:8d} bytes")


if __name__ == "__main__":
    main()
