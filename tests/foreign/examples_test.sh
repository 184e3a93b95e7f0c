#!/bin/bash
# The examples in C++ and C, on two ranks.
set -u
source tests/foreign/expect.sh

expect_line tests/foreign/averager
expect_line tests/foreign/run_ranks 2 tests/foreign/averager_c
