#!/bin/bash
# What `bazel run //:install` puts into a folder is enough to build and run programs: g++, gcc and
# pkg-config, and nothing of this workspace.
set -eu
source tests/foreign/expect.sh
need g++ g++
need pkg-config pkg-config

prefix=$TEST_TMPDIR/prefix
launch/install/install "$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
run=$PWD/launch/run headers=$PWD/launch/install/headers.txt
cp tests/foreign/averager.cc tests/foreign/averager.c "$TEST_TMPDIR"
cd "$TEST_TMPDIR"
flags=$(pkg-config --cflags --libs ddp)

g++ -std=c++20 averager.cc -o averager $flags
expect_line ./averager
gcc -std=c89 -pedantic-errors averager.c -o averager_c $flags
expect_line "$run" --nproc_per_node=2 ./averager_c

# Each public header is complete, with nothing but what lies there.
while read -r header; do
  echo "#include \"$header\"" >"${header//\//_}.cc"
done <"$headers"
printf '%s\0' ./*_*.h.cc | xargs -0 -P2 -n4 g++ -std=c++20 -fsyntax-only -I"$prefix/include"
