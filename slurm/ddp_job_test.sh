#!/bin/bash
# ddp_job.sh with commands of Slurm that only pretend. tests/slurm has a real one.
set -u -o pipefail

job=$PWD/slurm/ddp_job.sh
failures=0

fail() {
  echo "FAILED: $case_name: $*"
  sed 's/^/    /' output
  failures=$((failures + 1))
}

expect_output() { grep -qxF -- "$1" output || fail "the output lacks: $1"; }
expect_exit() { [[ $exit_code == "$1" ]] || fail "exit code $exit_code instead of $1"; }
expect_requeued() { [[ $(cat requeued 2>/dev/null) == "$1" ]] || fail "requeued: '$(cat requeued 2>/dev/null)', not '$1'"; }

# Writes a command into the cluster's PATH; its body comes from stdin. USR1 is as in a new process.
add_command() {
  { echo '#!/usr/bin/env -S --default-signal=USR1 bash'; cat; } >"bin/$1"
  chmod +x "bin/$1"
}

# new_cluster CASE: in a folder of its own.
new_cluster() {
  case_name=$1
  mkdir "$TEST_TMPDIR/$case_name" && cd "$TEST_TMPDIR/$case_name" || exit 1
  mkdir bin
  add_command squeue <<<'echo RUNNING'
  add_command scontrol <<<'[[ $1 == requeue ]] && echo "$2" >>requeued'
  # One task, to which USR1 is passed on, as real ones do.
  add_command srun <<'END'
echo "$* SLURM_EXIT_ERROR=$SLURM_EXIT_ERROR" >srun_arguments
while [[ $1 == --* ]]; do shift; done
SLURM_PROCID=0 "$@" &
task=$!
trap 'read -r pid <program_pid; kill -USR1 "$pid"' USR1
echo >srun_is_ready
while kill -0 $task 2>/dev/null; do wait $task; done
trap '' USR1
wait $task
END
}

# Writes the program; its body comes from stdin.
program() { { echo 'echo $$ >program_pid'; cat; } | add_command program; }

start_job() {
  env -u SLURM_ARRAY_JOB_ID SLURM_JOB_ID=7 SLURM_JOB_NAME=name SLURM_JOB_NODELIST=node1 \
    DDP_PROGRAM=bin/program PATH="$PWD/bin:$PATH" "${environment[@]}" "$job" "$@" >output 2>&1 &
  job_pid=$!
}

await_job() {
  wait "$job_pid"
  exit_code=$?
}

run_job() { start_job "$@"; await_job; }
environment=()

await() { until [[ -e $1 ]]; do sleep 0.01; done; }

new_cluster done
program <<<'printf "%s\n" "$@"'
run_job --flag 'two words' '*'
expect_exit 0
expect_output --flag
expect_output 'two words'
expect_output '*'
expect_output --checkpoint_dir=checkpoints/name-7
expect_output "ddp_job: exit code 0"
expect_requeued ''

new_cluster srun_flags
program <<<true
environment=(SLURM_CPUS_PER_TASK=12 DDP_SRUN_FLAGS="--mpi=none --container-image=x")
run_job
environment=()
expect_exit 0
grep -q -- "--kill-on-bad-exit=1 --wait=60 .*--cpus-per-task=12 --mpi=none --container-image=x " \
  srun_arguments || fail "srun was told: $(cat srun_arguments)"
grep -q SLURM_EXIT_ERROR=254 srun_arguments || fail "srun's own failures look like a program's"

new_cluster failed
program <<<'exit 3'
run_job
expect_exit 3
expect_output "ddp_job: task 0 failed first, with exit code 3"
expect_requeued ''

new_cluster killed
program <<<'kill -KILL $$'
run_job
expect_exit 137
expect_output "ddp_job: task 0 failed first, with exit code 137"

new_cluster srun_itself_failed
program <<<true
add_command srun <<<'echo "srun: error: no"; exit 254'
run_job
expect_exit 254
expect_output "ddp_job: srun failed, see above"

new_cluster failure_of_the_run_before
program <<<true
mkdir -p checkpoints/name-7
echo "5 9" >checkpoints/name-7/first_failure
add_command srun <<<'exit 143'
run_job
expect_exit 143

new_cluster no_progress
program <<<'exit 75'
mkdir -p checkpoints/name-7/step-00000012
run_job
expect_exit 75
expect_output "ddp_job: not requeued: no progress, the newest checkpoint is that of step 12, as at the start"
expect_requeued ''

new_cluster progress
program <<<'mkdir checkpoints/name-7/step-100000000.2; exit 75'
mkdir -p checkpoints/name-7/step-99999999 checkpoints/name-7/{step-x,.saving-1,step-200000000.x}
run_job
expect_exit 75
expect_output "ddp_job: requeued, to go on from step 100000000"
expect_requeued 7

new_cluster cancelled
program <<<'mkdir checkpoints/name-7/step-00000012; exit 75'
add_command squeue <<<'echo COMPLETING'
run_job
expect_exit 75
expect_output "ddp_job: not requeued: the job was cancelled, or Slurm requeues it itself; checkpoint of step 12"
expect_requeued ''

new_cluster requeue_is_refused
program <<<'mkdir checkpoints/name-7/step-00000012; exit 75'
add_command scontrol <<<'echo "Requested operation is presently disabled"; exit 1'
run_job
expect_exit 75
expect_output "ddp_job: could not be requeued, see above; a new job with --checkpoint_dir=checkpoints/name-7 goes on from step 12"

new_cluster restart
program <<<'printf "%s\n" "$@"'
environment=(SLURM_RESTART_COUNT=2)
run_job --resume=never
environment=()
[[ $(grep -x -- '--resume=.*' output | tail -1) == --resume=auto ]] || fail "begins anew"

new_cluster array_element
program <<<'printf "%s\n" "$@"; mkdir runs/4/step-00000001; exit 75'
environment=(SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=4 SLURM_JOB_ID=9)
run_job --seed=%a --checkpoint_dir=runs/%a
expect_output --seed=4
expect_output --checkpoint_dir=runs/4
expect_requeued 7_4
run_job --seed=%a --checkpoint_dir=runs
expect_exit 2
expect_output "ddp_job: --checkpoint_dir=runs is the same for the whole array: put %a, the index, into it"
environment=()

new_cluster folder_as_a_word_of_its_own
program <<<true
run_job --checkpoint_dir 'a folder'
expect_exit 0
expect_output "ddp_job: checkpoints in a folder, the newest of step 0"

new_cluster not_built
run_job
expect_exit 2
expect_output "ddp_job: no program bin/program in $PWD: build it (bazel build //launch:train) and submit from the top folder, or set DDP_PROGRAM"

new_cluster no_job
environment=(SLURM_JOB_ID=)
run_job
environment=()
expect_exit 2
expect_output "ddp_job: not inside a job: start it with sbatch slurm/ddp_job.sh"

# The request to stop comes before, while and after the program ends by itself, sometimes twice: the
# exit code is the program's.
for round in {0..29}; do
  new_cluster "asked_$round"
  program <<'END'
trap 'exit 75' USR1
mkdir checkpoints/name-7/step-00000012
echo >started
for _ in {1..5}; do sleep 0.01; done
exit 75
END
  start_job
  await started
  await srun_is_ready
  sleep "$(printf '0.%03d' $((2 * round)))"
  kill -"$([[ $((round % 2)) == 0 ]] && echo USR1 || echo TERM)" "$job_pid" 2>/dev/null
  ((round % 3 != 0)) || kill -USR1 "$job_pid" 2>/dev/null
  await_job
  expect_exit 75
  expect_requeued 7
  expect_output "ddp_job: requeued, to go on from step 12"
done

new_cluster asked_and_stops
program <<'END'
trap 'mkdir checkpoints/name-7/step-00000012; exit 75' USR1
echo >started
while :; do sleep 0.01; done
END
start_job
await started
await srun_is_ready
kill -TERM "$job_pid"
await_job
expect_exit 75
expect_output "ddp_job: TERM: the program is asked to stop"
expect_requeued 7

[[ $failures == 0 ]] && echo "all cases passed"
exit $((failures > 0))
