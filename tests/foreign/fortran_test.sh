#!/bin/bash
# The example in Fortran: compiled against the shared library, run by mpirun.
set -eu
source tests/foreign/expect.sh
need gfortran gfortran
need mpifort libopenmpi-dev
need mpirun openmpi-bin

libraries=$PWD/launch/install
program=$TEST_TMPDIR/averager
mpifort -Wall -J "$TEST_TMPDIR" -o "$program" ddp/ddp.f90 tests/foreign/averager.f90 \
  -L"$libraries" -lddp -Wl,-rpath,"$libraries"
expect_line mpirun -np 2 "$program"
