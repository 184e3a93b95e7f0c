#!/bin/bash
# Hosts of a test's own: what a command among them sees, and that nothing stays behind.
set -u -o pipefail

readonly with_hosts=$PWD/tests/hosts/with_hosts.sh host=$PWD/tests/hosts/host.sh
export host
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# Whether a process with this in its environment runs.
runs() { grep -qszF "$1" /proc/[0-9]*/environ; }
interfaces() { ls /sys/class/net; }

# expect OUTPUT COMMAND: of a shell command among two hosts.
expect() {
  local output
  output=$("$with_hosts" 2 bash -c "$2" 2>&1) || output+=" exit code $?"
  [[ $output == "$1" ]] || fail "$2: '$output' instead of '$1'"
}

if [[ $("$with_hosts" 1 true) == SKIPPED* ]]; then
  "$with_hosts" 1 true
  exit 0
fi
interfaces >"$TEST_TMPDIR/before"

expect ctl hostname
expect node2 '"$host" on node2 hostname'
expect "$PWD" '"$host" on node2 pwd'
expect 127.0.1.1 '"$host" on node2 getent ahostsv4 node2 | awk "{ print \$1; exit }"'
expect 10.77.0.1 '"$host" on node2 getent ahostsv4 node1 | awk "{ print \$1; exit }"'
expect ' exit code 7' 'exit 7'
expect ' exit code 7' '"$host" on node1 sh -c "exit 7"'

# A crash ends what runs there, and nothing else; afterwards it is as new.
expect 'exit code 137, up again' '
  "$host" on node1 sh -c "echo >/run/begun; exec sleep 1000" & sleep=$!
  until [[ -e /run/begun ]]; do sleep 0.01; done
  "$host" crash node1
  { wait "$sleep"; } 2>/dev/null; echo -n "exit code $?, "
  "$host" boot node1
  "$host" on node1 sh -c "echo up again"'

# Two at a time don't see each other, and nobody outside sees them.
"$with_hosts" 1 true & one=$!
"$with_hosts" 1 true || fail "the second of two"
wait "$one" || fail "the first of two"

# Killed, they are gone.
mark=hosts_test_$$
MARK=$mark "$with_hosts" 1 bash -c '"$host" on node1 sleep 1000' &
until runs "MARK=$mark"; do sleep 0.01; done
kill -KILL $!
wait $! 2>/dev/null
for _ in {1..500}; do runs "MARK=$mark" || break; sleep 0.02; done
! runs "MARK=$mark" || fail "processes outlive with_hosts.sh"
interfaces | diff "$TEST_TMPDIR/before" - || fail "interfaces are left behind"

((failures == 0)) && echo "all cases passed"
exit $((failures > 0))
