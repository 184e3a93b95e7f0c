#!/bin/bash
# bazelw on machines that lack something. The machine is made of stubs: a PATH that has only what
# the case needs, and a package list of two packages, one of which brings Bazel.
set -u

bazelw=$PWD/bazelw
failures=0

fail() {
  echo "FAILED: $case_name: $*"
  sed 's/^/    /' output
  failures=$((failures + 1))
}

expect_output() { grep -qF -- "$1" output || fail "the output lacks: $1"; }
expect_exit() { [[ $exit_code == "$1" ]] || fail "exit code $exit_code instead of $1"; }

# Writes a command into the machine's PATH; its body comes from stdin.
add_command() {
  { echo '#!/bin/bash'; cat; } >"bin/$1"
  chmod +x "bin/$1"
}

# new_machine CASE USER_ID: an empty machine, in a directory of its own.
new_machine() {
  case_name=$1
  mkdir "$TEST_TMPDIR/$case_name" && cd "$TEST_TMPDIR/$case_name" || exit 1
  mkdir -p bin checkout/third_party
  cp "$bazelw" checkout/bazelw
  ln -s "$(type -P bash)" "$(type -P cat)" "$(type -P chmod)" "$(type -P dirname)" \
    "$(type -P env)" "$(type -P grep)" "$(type -P touch)" bin/
  cat >checkout/third_party/packages.txt <<LIST
# group | package | looked for | purpose
build | bazel-package | bazel | builds everything
test  | library-dev | $PWD/library.h | a library
ci    | formatter | formatter | checks the format
LIST
  add_command id <<<"echo $2"
}

add_bazel() { add_command bazel <<<'echo "bazel was run with: $*"'; }

add_apt_get() {
  add_command apt-get <<STUB
echo "apt-get \$*" >>$PWD/apt-get.log
[[ \$* != *install* ]] && exit
[[ \$* == *bazel-package* ]] && printf '#!/bin/bash\necho "bazel was run with: \$*"' >$PWD/bin/bazel
chmod +x $PWD/bin/bazel
touch $PWD/library.h
STUB
}

run_bazelw() {
  PATH=$PWD/bin checkout/bazelw "$@" >output 2>&1
  exit_code=$?
}

new_machine everything_is_there 1000
add_bazel
touch library.h
run_bazelw test //...
expect_exit 0
expect_output "bazel was run with: test //..."
[[ $(wc -l <output) == 1 ]] || fail "it says more than Bazel does"

new_machine root_installs 0
add_apt_get
run_bazelw run //x -- --flag
expect_exit 0
grep -q "bazel-package .*builds everything" output || fail "bazel-package is not announced"
grep -q "library-dev .*a library" output || fail "library-dev is not announced"
grep -q "install -y --no-install-recommends bazel-package library-dev$" apt-get.log ||
  fail "apt-get was not asked for both"
expect_output "bazel was run with: run //x -- --flag"

new_machine bazel_forgets_what_it_saw 0
add_bazel
add_apt_get
run_bazelw build //x
expect_exit 0
expect_output "bazel was run with: shutdown"
expect_output "bazel was run with: build //x"

new_machine sudo_installs 1000
add_apt_get
add_command sudo <<<'case $1 in -n) exit 1 ;; -v) ;; *) "$@" ;; esac'
run_bazelw build //x
expect_exit 0
expect_output "bazel was run with: build //x"

new_machine no_sudo 1000
add_apt_get
run_bazelw build //x
expect_exit 1
expect_output "apt-get update && apt-get install -y --no-install-recommends bazel-package library-dev"
[[ ! -e apt-get.log ]] || fail "apt-get was run"

new_machine sudo_refuses 1000
add_apt_get
add_command sudo <<<'echo "user is not in the sudoers file"; exit 1'
run_bazelw build //x
expect_exit 1
expect_output "apt-get update && apt-get install -y --no-install-recommends bazel-package library-dev"

new_machine not_debian 0
run_bazelw build //x
expect_exit 1
expect_output "no apt-get"
expect_output "library-dev"
expect_output "$PWD/library.h"

new_machine not_debian_but_complete 1000
add_bazel
touch library.h
run_bazelw build //x
expect_exit 0
expect_output "bazel was run with: build //x"

new_machine apt_get_fails 0
add_command apt-get <<<'exit 100'
run_bazelw build //x
expect_exit 1
expect_output "apt-get failed"

new_machine package_without_its_file 0
add_command apt-get <<<'exit 0'
run_bazelw build //x
expect_exit 1
expect_output "after the installation these are still missing: bazel $PWD/library.h"

new_machine extra_group 1000
add_bazel
add_apt_get
touch library.h
run_bazelw --install ci
expect_exit 1
expect_output "install -y --no-install-recommends formatter"
run_bazelw --install nonsense
expect_exit 1
expect_output "no group 'nonsense'"

[[ $failures == 0 ]] && echo "all cases passed"
exit $((failures > 0))
