#!/bin/bash
# Runs a command on a Slurm cluster of its own, on hosts of its own (tests/hosts):
#
#   tests/hosts/with_hosts.sh 2 tests/slurm/with_slurm.sh COMMAND...
#
# sbatch, srun, squeue and scontrol then speak to the cluster, whose nodes are the hosts node1, ...,
# each with 4 processors and 2 GPUs (as far as Slurm knows). They ask munge who is who. All state is
# in /run, which ends with the hosts; logs go to the test's outputs. Exits with the command's code.
set -eu
readonly here=$(dirname "$0")
export PATH=$PATH:/usr/sbin:/sbin

need() {
  type -P "$1" >/dev/null && return
  echo "$1 is missing: install the package $2, or run ./bazelw, which does"
  exit 1
}
need munged munge
need slurmctld slurmctld
need slurmd slurmd
need sinfo slurm-client

# A cluster around this one, or mpirun, says nothing about this one.
for variable in $(compgen -e | grep -E '^(SLURM|SLURMD|SBATCH|SRUN|SALLOC|SQUEUE|PMIX?|OMPI)_'); do
  unset "$variable"
done
readonly num_nodes=$(grep -c ' node' /etc/hosts)
export SLURM_CONF=/run/slurm/slurm.conf

start_munge() {
  mkdir -m 755 /run/munge
  (umask 077 && head -c 128 /dev/urandom >/run/munge/key)
  munged --key-file=/run/munge/key --socket=/run/munge/socket --pid-file=/run/munge/pid \
    --seed-file=/run/munge/seed --log-file=/run/munge/log
}

configure() {
  mkdir -p /run/slurm/state /run/slurm/log
  cp "$here/slurm.conf" "$SLURM_CONF"
  echo "NodeName=node[1-$num_nodes] NodeAddr=10.77.0.[1-$num_nodes] CPUs=4 RealMemory=4000" \
    "Gres=gpu:2" >>"$SLURM_CONF"
  # Some character device must stand for each GPU; none is opened.
  printf 'Name=gpu File=%s\n' /dev/null /dev/zero >/run/slurm/gres.conf
  echo "PMIxCliTmpDirBase=/run/own" >/run/slurm/mpi.conf
}

save_logs() {
  cp -r /run/slurm/log "${TEST_UNDECLARED_OUTPUTS_DIR:-/run}/"
}

num_idle() { timeout 5 sinfo --noheader --Node --partition=main --format=%T | grep -cx idle; }

await_nodes() {
  local deadline=$((SECONDS + 30))
  until [[ $(num_idle 2>/dev/null) == "$num_nodes" ]]; do
    if ((SECONDS > deadline)); then
      echo "the cluster isn't ready after 30 s"
      tail /run/slurm/log/*
      exit 1
    fi
    sleep 0.05
  done
}

start_munge
configure
slurmctld
trap save_logs EXIT
for ((i = 1; i <= num_nodes; i++)); do "$here/../hosts/host.sh" on "node$i" slurmd -N "node$i"; done
await_nodes
"$@"
