#!/bin/bash
# The examples in C++ and C, on two ranks.
set -u
source tests/foreign/expect.sh

expect_line tests/foreign/averager
expect_line launch/run --nproc_per_node=2 tests/foreign/averager_c
