#!/bin/bash
# What README.md shows is what there is: its programs stand in it to the letter, and its own models
# learn.
set -u -o pipefail
failures=0

# The block of README.md that begins like the file, against the file.
expect_shown() {
  local first
  first=$(head -n 1 "$1")
  if ! awk -v first="$first" '
      /^```/ { if (inside) exit; next }
      $0 == first { inside = 1 }
      inside { print }' README.md | diff - "$1"; then
    echo "README.md doesn't show $1 as it is"
    failures=1
  fi
}

# Runs a program: the loss of its last epoch is below that of the first, divided by $2.
expect_learns() {
  local output first last
  output=$("$1") || failures=1
  echo "$output"
  first=$(awk '/^Epoch/ { print $4; exit }' <<< "$output")
  last=$(awk '/^Epoch/ { loss = $4 } END { print loss }' <<< "$output")
  if ! awk -v first="$first" -v last="$last" -v by="$2" 'BEGIN { exit !(last > 0 && last < first / by) }'; then
    echo "$1: the loss doesn't fall to a ${2}th: $first -> $last"
    failures=1
  fi
}

expect_shown launch/tutorial.cc
expect_shown tests/readme/own_model.cc
expect_shown tests/readme/resnet.cc
for example in averager.cc averager.c averager.f90; do expect_shown "tests/foreign/$example"; done

expect_learns tests/readme/own_model 10
expect_learns tests/readme/resnet 4
exit "$failures"
