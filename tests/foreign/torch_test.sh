#!/bin/bash
# A program of PyTorch's, unchanged, under //launch:run.
set -eu -o pipefail

/usr/bin/python3 -c 'import torch' || {
  echo "PyTorch is missing: install the package python3-torch, or run ./bazelw --install bench"
  exit 1
}
output=$(launch/run --nproc_per_node=2 /usr/bin/python3 tests/foreign/torch_ranks.py | sort)
expected=$'rank 0 of 2: 3\nrank 1 of 2: 3'
[[ $output == "$expected" ]] || { echo "FAILED: $output"; exit 1; }
