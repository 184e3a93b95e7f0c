#!/bin/bash
# Asks Bazel for all arrows between targets of this workspace, and checks each against floors.txt.
#
# A test cannot see packages that it does not depend on, so this one runs a Bazel of its own
# (--batch: no server stays; its files are in $TEST_TMPDIR) in the real workspace.
set -eu -o pipefail

here=$PWD/tests/layering
cd "$(dirname "$(readlink -f "$here/floors.txt")")/../.."

# As //... , but a Bazel that did not make the links bazel-bin, bazel-out, ... would follow them.
targets="//:all"
for folder in *; do
  [[ -d $folder && ! -L $folder ]] || continue
  [[ -z $(find "$folder" -name 'BUILD*' -print -quit) ]] || targets+=" + //$folder/..."
done

bazel --batch query --noshow_progress --noimplicit_deps --nohost_deps --nonodep_deps \
  --order_output=no --output=graph --nograph:factored --graph:node_limit=-1 \
  "deps($targets, 1)" >"$TEST_TMPDIR/graph"

awk -f "$here/check_floors.awk" "$here/floors.txt" "$TEST_TMPDIR/graph"
