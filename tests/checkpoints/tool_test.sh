#!/bin/bash
# bazel run //ddp:checkpoint shows, checks and compares what the trainer saved.
set -euo pipefail

tool=ddp/checkpoint/tool
folder=${TEST_TMPDIR}/checkpoints
other=${TEST_TMPDIR}/other
train=(launch/train --model=linear --max_steps=4 --checkpoint_every=2 --keep=5)

# Ends the test unless the command ends so, and prints this.
expect() {
  local code=$1 text=$2 output status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  if [[ "${status}" != "${code}" || "${output}" != *"${text}"* ]]; then
    echo "'$*' ended with ${status}, expected ${code}, and '${text}' in: ${output}" >&2
    exit 1
  fi
}

"${train[@]}" --checkpoint_dir="${folder}"
"${train[@]}" --checkpoint_dir="${other}" --learning_rate=0.5

expect 0 "step 4, epoch 0, " "${tool}" inspect "${folder}"
expect 0 "step 2, epoch 0, " "${tool}" inspect "${folder}/step-00000002"
expect 0 "  weight  float32[2, 5]" "${tool}" inspect "${folder}"
expect 0 "step-00000002: whole, " "${tool}" verify "${folder}"
expect 0 "" "${tool}" diff "${folder}" "${folder}"
expect 1 "model weight: 10 of 10 elements, by at most " "${tool}" diff "${folder}" "${other}"
expect 1 "setting learning_rate: 0.01 and 0.5" "${tool}" diff "${folder}" "${other}"
truncate -s -1 "${folder}/step-00000004/model.safetensors"
expect 1 "step-00000004: damaged: " "${tool}" verify "${folder}"
expect 1 "damaged: " "${tool}" inspect "${folder}"
expect 2 "is no folder" "${tool}" inspect "${folder}/nothing"
expect 2 "is no checkpoint, and holds none" "${tool}" verify "${TEST_TMPDIR}"
expect 2 "usage: " "${tool}" show "${folder}"
