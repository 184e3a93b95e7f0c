#!/bin/bash
# Trains on a Slurm cluster to the end, over as many time limits and preemptions as that takes:
#
#   bazel build //launch:train
#   sbatch --nodes=4 --ntasks-per-node=8 --gpus-per-node=8 slurm/ddp_job.sh --model=gpt
#
# Before sbatch's limit comes, and when the job is preempted, the program is asked to stop. It saves
# a checkpoint and exits with 75, "start me again"; the job then goes back into the queue, provided
# that this checkpoint is a later one than at its start, or that the job was preempted.
#
# Arguments go to the program; in an array, %a in them stands for the index. Variables:
#   DDP_PROGRAM      what is started, instead of bazel-bin/launch/train; it takes --checkpoint_dir
#                    and --resume
#   DDP_SRUN_FLAGS   more flags for srun, with blanks between: those of a container
# See slurm/README.md.
#
#SBATCH --job-name=ddp
#SBATCH --ntasks-per-node=2
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@300
set -uo pipefail
trap '' USR1 # until srun runs, and for srun, whose end it would be in its first moments

readonly requeue_me=75 # exit code: stopped when asked, a checkpoint is there
readonly srun_failed=254
readonly program=${DDP_PROGRAM:-bazel-bin/launch/train}

say() { printf 'ddp_job: %s\n' "$*"; }
die() { say "$*"; exit 2; }

# The job's number as scontrol takes it; SLURM_JOB_ID alone may mean a whole array.
find_job_id() {
  [[ -n ${SLURM_JOB_ID:-} ]] || die "not inside a job: start it with sbatch slurm/ddp_job.sh"
  readonly array_index=${SLURM_ARRAY_TASK_ID:-}
  readonly job_id=${array_index:+${SLURM_ARRAY_JOB_ID}_}${array_index:-$SLURM_JOB_ID}
}

# Sets arguments and checkpoint_dir from the command line.
read_command_line() {
  arguments=("$@")
  local i given=
  for i in "${!arguments[@]}"; do
    case ${arguments[i]} in
      --checkpoint_dir=* | -checkpoint_dir=*) given=${arguments[i]#*=} ;;
      --checkpoint_dir | -checkpoint_dir) given=${arguments[i + 1]:-} ;;
    esac
  done
  if [[ -n $array_index ]]; then
    [[ -z $given || $given == *%a* ]] ||
      die "--checkpoint_dir=$given is the same for the whole array: put %a, the index, into it"
    arguments=("${arguments[@]//%a/$array_index}")
  fi
  checkpoint_dir=${given//%a/${array_index:-%a}} # a name may have a %a outside arrays
  if [[ -z $checkpoint_dir ]]; then
    checkpoint_dir=checkpoints/$SLURM_JOB_NAME-$job_id
    arguments+=("--checkpoint_dir=$checkpoint_dir")
  fi
  # A command line that began anew goes on from then on.
  ((${SLURM_RESTART_COUNT:-0} == 0)) || arguments+=(--resume=auto)
}

check_program() {
  [[ -x $(type -P -- "$program") ]] ||
    die "no program $program in $PWD: build it (bazel build //launch:train) and submit from the" \
      "top folder, or set DDP_PROGRAM"
}

# The step of the newest checkpoint, whose folder is called step-00000120; 0 where there is none.
newest_step() {
  local path newest=0
  for path in "$checkpoint_dir"/step-*; do
    [[ $path =~ /step-([0-9]+)(\.[0-9]+)?$ ]] && ((10#${BASH_REMATCH[1]} > newest)) &&
      newest=$((10#${BASH_REMATCH[1]}))
  done
  echo "$newest"
}

# Around each task: notes who fails first, and how, before srun ends the others for it. What fails
# after srun's TERM fails because of that.
readonly note_failure='
trap : INT USR1 USR2 # for the program, which has the same signals
trap late=1 TERM
"$@"
code=$?
[ "$code" = 0 ] || [ -n "${late-}" ] || (set -C; echo "$SLURM_PROCID $code" >"$0") 2>/dev/null
exit "$code"'

start_program() {
  # Slurm's defaults leave the other tasks of a dead one alone, and since 22.05 each task with one
  # processor.
  local flags=(--kill-on-bad-exit=1 --wait=60 --label
    ${SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"})
  local more
  read -ra more <<<"${DDP_SRUN_FLAGS:-}"
  rm -f -- "$failure_file"
  SLURM_EXIT_ERROR=$srun_failed srun "${flags[@]}" ${more[@]+"${more[@]}"} \
    sh -c "$note_failure" "$failure_file" "$program" "${arguments[@]}" &
  srun_pid=$!
  trap 'ask_to_stop USR1' USR1
  trap 'ask_to_stop TERM' TERM
}

# srun passes USR1 on to all tasks; TERM would make it kill them.
ask_to_stop() {
  say "$1: the program is asked to stop"
  kill -USR1 "$srun_pid" 2>/dev/null
}

# Sets exit_code to that of the task that failed first.
await_program() {
  local who
  while kill -0 "$srun_pid" 2>/dev/null; do wait "$srun_pid"; done # a signal ends the wait early
  trap '' USR1 TERM                                               # a requeue ends the job with TERM
  wait "$srun_pid"
  exit_code=$?
  if [[ $exit_code != 0 && -s $failure_file ]]; then
    read -r who exit_code <"$failure_file"
    ((exit_code == requeue_me)) || say "task $who failed first, with exit code $exit_code"
  elif ((exit_code == srun_failed)); then
    say "srun failed, see above"
  fi
}

# Whether the job ends for a more important one, and so through no fault of its own.
is_preempted() { [[ $(scontrol show job "$job_id") =~ PreemptTime=[0-9] ]]; }

requeue_after_progress() {
  local step
  step=$(newest_step)
  if ((step <= first_step)) && ! is_preempted; then
    say "not requeued: no progress, the newest checkpoint is that of step $step, as at the start"
  elif [[ $(squeue --noheader --jobs="$job_id" --format=%T) != RUNNING ]]; then
    say "not requeued: the job was cancelled, or Slurm requeues it itself; checkpoint of step $step"
  elif scontrol requeue "$job_id"; then
    say "requeued, to go on from step $step"
  else
    say "could not be requeued, see above; a new job with --checkpoint_dir=$checkpoint_dir goes" \
      "on from step $step"
  fi
}

find_job_id
read_command_line "$@"
check_program
mkdir -p -- "$checkpoint_dir" || exit 2
readonly failure_file=$(cd -- "$checkpoint_dir" && pwd)/first_failure
readonly first_step=$(newest_step)
say "job $job_id, restart ${SLURM_RESTART_COUNT:-0}, on $SLURM_JOB_NODELIST:" \
  "$program ${arguments[*]}"
say "checkpoints in $checkpoint_dir, the newest of step $first_step"
start_program
await_program
((exit_code != requeue_me)) || requeue_after_progress
say "exit code $exit_code"
exit "$exit_code"
