#!/bin/bash
# A plain Python script reads what the trainer saved, and writes what it begins with.
set -euo pipefail

python=/usr/bin/python3
if [[ ! -x "${python}" ]]; then
  echo "this test needs Python: ./bazelw --install test brings Debian's python3" >&2
  exit 1
fi
script=tests/checkpoints/checkpoints.py
folder=${TEST_TMPDIR}/checkpoints
saved=${TEST_TMPDIR}/saved.safetensors
train=(launch/train --model=linear --batch_size=4 --optimizer=adam)

"${train[@]}" --max_steps=3 --checkpoint_dir="${folder}" --save="${saved}"
"${python}" "${script}" check "${folder}/step-00000003" "${saved}"

"${python}" "${script}" write "${TEST_TMPDIR}/written.safetensors"
"${train[@]}" --max_steps=1 --learning_rate=0 --init_from="${TEST_TMPDIR}/written.safetensors" \
  --save="${saved}"
"${python}" "${script}" same "${saved}" "${TEST_TMPDIR}/written.safetensors"
