#!/bin/bash
# The trainer under a real mpirun, which says who each rank is; where they meet, the ranks tell each
# other over MPI.
set -eu

command -v mpirun >/dev/null || { echo "mpirun is missing: install the package openmpi-bin" && exit 1; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none

readonly flags=(--model=mlp --hidden=16 --data=digits --max_steps=40 --log_every=20)

launch/train --nproc_per_node=4 "${flags[@]}" --save="$TEST_TMPDIR/expected" >/dev/null
for backend in mpi auto; do
  mpirun -n 4 --bind-to none launch/train "${flags[@]}" --backend="$backend" \
    --save="$TEST_TMPDIR/$backend" | tee "$TEST_TMPDIR/log"
  grep -q "4 ranks, $backend" "$TEST_TMPDIR/log"
  cmp "$TEST_TMPDIR/expected" "$TEST_TMPDIR/$backend"
done
