#!/bin/bash
# Another Bazel workspace uses this one as @ddp: a program builds and runs there.
#
#   workspace_test.sh           analyses all of @ddp//ddp, builds and runs a program against the stores
#   workspace_test.sh --whole   builds and runs the averager example: compiles the library once more
#
# A Bazel of its own, whose server ends with this script, with files in a folder of its own.
set -eu -o pipefail

here=$(dirname "$(readlink -f "$PWD/tests/foreign/averager.cc")")
ddp=$(cd "$here/../.." && pwd)
work=${TEST_TMPDIR:-$(mktemp -d)}
mkdir -p "$work/user" && cd "$work/user"

cat >WORKSPACE <<END
workspace(name = "user")

local_repository(
    name = "ddp",
    path = "$ddp",
)

load("@ddp//third_party:dependencies.bzl", "ddp_dependencies")

ddp_dependencies()
END
cat >.bazelrc <<'END'
build --compilation_mode=opt --cxxopt=-std=c++20 --host_cxxopt=-std=c++20 --dynamic_mode=off
build --incompatible_strict_action_env --nosandbox_debug
END
cat >BUILD.bazel <<'END'
cc_binary(
    name = "averager",
    srcs = ["averager.cc"],
    deps = ["@ddp//ddp", "@ddp//launch:spawn", "@ddp//ops", "@ddp//third_party/fmt"],
)

cc_binary(
    name = "store",
    srcs = ["store.cc"],
    deps = ["@ddp//ddp/store:hash_store"],
)
END
cp "$here/averager.cc" .
cat >store.cc <<'END'
#include <cstdio>

#include "ddp/store/hash_store.h"

int main() {
  ddp::HashStore store;
  store.Set("greeting", "hello from @ddp");
  std::puts(store.Get("greeting").c_str());
}
END

run_bazel() { bazel --max_idle_secs=15 --output_user_root="$work/bazel" "$@"; }
trap 'run_bazel shutdown' EXIT

if [[ ${1:-} == --whole ]]; then
  source "$here/expect.sh"
  run_bazel build --noshow_progress //:averager
  expect_line bazel-bin/averager
else
  run_bazel build --noshow_progress --nobuild //:averager
  run_bazel build --noshow_progress //:store
  [[ $(bazel-bin/store) == "hello from @ddp" ]]
fi
echo "passed"
