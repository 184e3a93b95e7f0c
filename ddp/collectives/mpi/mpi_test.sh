#!/bin/bash
# The tests of ddp/collectives with ranks that mpirun starts.
#
#   mpi_test.sh COLLECTIVES_TEST FAILURES_TEST MPI_BACKEND_TEST GROUPS_TEST
set -eu

command -v mpirun >/dev/null || { echo "mpirun is missing: install the package openmpi-bin" && exit 1; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
unset TEST_TOTAL_SHARDS TEST_SHARD_INDEX TEST_SHARD_STATUS_FILE XML_OUTPUT_FILE GTEST_OUTPUT

# run RANKS BINARY FILTER: every rank must pass. A rank whose group failed, as some tests want, ends
# without MPI_Finalize, which mpirun calls an error, for which it kills the others unless it is to
# recover: what the ranks say counts.
run() {
  export DDP_TEST_STORE="$TEST_TMPDIR/store"
  rm -f "$DDP_TEST_STORE"*
  mpirun --enable-recovery -np "$1" "$2" --gtest_filter="$3" >"$TEST_TMPDIR/output" 2>&1 || true
  if [[ $(grep -c '\[  PASSED  \] [1-9]' "$TEST_TMPDIR/output") != "$1" ]] ||
    grep -q '\[  FAILED  \]' "$TEST_TMPDIR/output"; then
    cat "$TEST_TMPDIR/output"
    echo "FAILED: mpirun -np $1 $2 --gtest_filter=$3"
    exit 1
  fi
  grep '\[  PASSED  \]' "$TEST_TMPDIR/output"
}

for ranks in 2 3 4; do
  run "$ranks" "$1" 'All/CollectivesTest.*'
  run "$ranks" "$4" 'All/GroupsTest.*'
done
run 3 "$2" 'All/MismatchTest.*:All/FailuresTest.BadArguments*:All/FailuresTest.WhatWasSent*'
run 3 "$2" 'All/FailuresTest.ARankThatLeaves*:All/FailuresTest.AnAbortInTheMiddle*'
run 3 "$3" '*ToldToAllRanks'
run 3 "$3" '*DoNotMeetTheNext'
