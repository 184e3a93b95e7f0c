#!/bin/bash
# Runs a command among hosts of its own: network namespaces, joined by a bridge.
#
#   with_hosts.sh NUM_HOSTS COMMAND...
#
# The command runs on the host ctl (10.77.0.254), beside node1 (10.77.0.1, fd77::1), node2, ...
# tests/hosts/host.sh runs other commands on those, and breaks them. Each has its name, its network,
# its processes, /dev/shm and $TMPDIR to itself, and believes, as Debian's hosts do, that its own
# name is 127.0.1.1. All share an empty /run, and the rest of the machine's files.
#
# Needs root, and `ip` of Debian's iproute2. All of it ends with the command, and with this script,
# however that is ended; nothing stays behind. Exits with the command's code.
set -eu
readonly here=$(dirname "$(readlink -f "$0")")

if [[ ${1:-} != --inside ]]; then
  if ! type -P ip >/dev/null; then
    echo "ip is missing: install the package iproute2, or run ./bazelw, which does"
    exit 1
  fi
  if ! unshare --net --mount true 2>/dev/null; then
    echo "SKIPPED: hosts of one's own need root, and a machine that lets it make namespaces"
    exit 0
  fi
  exec setpriv --pdeathsig KILL unshare --net --mount --uts --ipc --pid --fork --kill-child \
    --mount-proc bash "$here/with_hosts.sh" --inside "$@"
fi
readonly num_hosts=$2
shift 2

mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/hosts /run/own
export TMPDIR=/run/own
hostname ctl
{
  echo "127.0.0.1 localhost"
  echo "10.77.0.254 ctl"
  for ((i = 1; i <= num_hosts; i++)); do echo "10.77.0.$i node$i"; done
} >/run/hosts/ctl
mount --bind /run/hosts/ctl /etc/hosts
ip link set lo up
ip link add bridge type bridge forward_delay 0
ip address add 10.77.0.254/24 dev bridge
ip -6 address add fd77::fe/64 dev bridge nodad
ip link set bridge up
for ((i = 1; i <= num_hosts; i++)); do "$here/host.sh" boot "node$i"; done

"$@"
