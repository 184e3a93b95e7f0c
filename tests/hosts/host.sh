#!/bin/bash
# What can be done to a host of with_hosts.sh:
#
#   host.sh on NODE COMMAND...    runs a command there, in this directory
#   host.sh link NODE up|down     its cable
#   host.sh crash NODE            it loses its power
#   host.sh boot NODE             and gets it back
set -eu

readonly action=$1 node=$2
shift 2
readonly init_file=/run/hosts/$node.init # the number of the process that all others there end with

boot() {
  local number=${node#node} started=/run/hosts/$node.started on=("$0" on "$node")
  sed "s/.* $node\$/127.0.1.1 $node/" /run/hosts/ctl >"/run/hosts/$node"
  rm -f "$started"
  mkfifo "$started"
  exec 3<>"$started"
  # bash, because it reaps the processes whose parents have ended.
  setsid unshare --net --uts --mount --pid --fork --kill-child --mount-proc bash -eu -c '
    hostname "$1"
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs /run/own
    mount --bind "/run/hosts/$1" /etc/hosts
    ip link set lo up
    echo >&3
    exec 3>&-
    sleep infinity & wait' bash "$node" </dev/null >"/run/hosts/$node.log" 2>&1 &
  read -r -t 20 -u 3 || { echo "$node didn't start"; exit 1; }
  # unshare has one child.
  tr -d ' ' <"/proc/$!/task/$!/children" >"$init_file"
  ip link delete "$node" 2>/dev/null || true # that of the life before
  ip link add "$node" type veth peer name eth0 netns "$(<"$init_file")"
  ip link set "$node" master bridge up
  "${on[@]}" ip address add "10.77.0.$number/24" dev eth0
  "${on[@]}" ip -6 address add "fd77::$number/64" dev eth0 nodad
  "${on[@]}" ip link set eth0 up
}

case $action in
  on)
    exec nsenter --target "$(<"$init_file")" --net --uts --mount --pid --root --wdns="$PWD" -- "$@"
    ;;
  link) ip link set "$node" "$1" ;;
  crash) kill -KILL "$(<"$init_file")" ;;
  boot) boot ;;
  *) echo "host.sh: no action '$action'" && exit 2 ;;
esac
