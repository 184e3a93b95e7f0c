# For the tests here.

# Fails with the name of the package where a command is missing: need COMMAND PACKAGE
need() {
  type -P "$1" >/dev/null && return
  echo "$1 is missing: install the package $2, or run ./bazelw, which does"
  exit 1
}

# Runs an example: both ranks find the line 3 x + 1 that each sees only half of.
expect_line() {
  local output rank
  output=$("$@") || { echo "FAILED: $*: exit code $?"; echo "$output"; exit 1; }
  for rank in 0 1; do
    grep -qx "rank $rank: w 3.000 b 1.000" <<<"$output" && continue
    echo "FAILED: $*: rank $rank didn't find w 3.000 b 1.000"
    echo "$output"
    exit 1
  done
}

# Open MPI on a machine of one's own: for anyone, with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
