#!/bin/bash
# What README.md shows is what there is: its programs stand in it to the letter, and its own model
# learns.
set -u -o pipefail
failures=0

# The ```cpp block of README.md that begins like the file, against the file.
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

expect_shown launch/tutorial.cc
expect_shown tests/readme/own_model.cc

output=$(tests/readme/own_model) || failures=1
echo "$output"
first=$(awk '/^Epoch 0,/ { print $4 }' <<< "$output")
last=$(awk '/^Epoch 9,/ { print $4 }' <<< "$output")
if ! awk -v first="$first" -v last="$last" 'BEGIN { exit !(last > 0 && last < first / 10) }'; then
  echo "the loss doesn't fall to a tenth: $first -> $last"
  failures=1
fi
exit "$failures"
