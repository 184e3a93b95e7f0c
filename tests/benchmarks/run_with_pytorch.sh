#!/bin/bash
# Runs the program that is named first with the Python that Debian's PyTorch belongs to.
set -eu
python=/usr/bin/python3
if ! "$python" -c 'import torch' 2> /dev/null; then
  echo "this needs PyTorch: ./bazelw --install bench brings Debian's python3-torch" >&2
  exit 1
fi
exec "$python" "$@"
