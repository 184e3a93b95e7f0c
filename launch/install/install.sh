#!/bin/bash
# Installs headers, the shared library and a pkg-config file:
#
#   bazel run //:install -- /usr/local
#
#   PREFIX/include/{ddp,ops,launch}/...   the public headers, and those that they include
#   PREFIX/include/ddp/ddp.f90            the Fortran module, to be compiled with the program
#   PREFIX/lib/libddp.so                  everything but the system's libraries
#   PREFIX/lib/pkgconfig/ddp.pc
set -eu -o pipefail

if [[ $# != 1 || $1 == -* ]]; then
  echo "usage: bazel run //:install -- PREFIX" >&2
  exit 2
fi
# Relative to where the command was typed.
mkdir -p "$(cd "${BUILD_WORKING_DIRECTORY:-.}" && realpath -m "$1")"
prefix=$(cd "${BUILD_WORKING_DIRECTORY:-.}" && realpath "$1")

declare -A installed=()

# Installs a header, unless it is the system's, and those that it includes.
install_header() {
  local included
  [[ -e $1 && -z ${installed[$1]:-} ]] || return 0
  installed[$1]=1
  install -D -m 644 "$1" "$prefix/include/$1"
  for included in $(sed -n 's/^#include "\(.*\)"$/\1/p' "$1"); do install_header "$included"; done
}

while read -r header; do install_header "$header"; done <launch/install/headers.txt
[[ -n ${installed[ddp/c_api.h]:-} ]] || { echo "no headers here: use bazel run" >&2 && exit 1; }
install -D -m 644 ddp/ddp.f90 "$prefix/include/ddp/ddp.f90"
install -D -m 755 launch/install/libddp.so "$prefix/lib/libddp.so"
mkdir -p "$prefix/lib/pkgconfig"
version=$(sed -n 's/^#define DDP_VERSION "\(.*\)"$/\1/p' ddp/c_api.h)
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" launch/install/ddp.pc.in >"$prefix/lib/pkgconfig/ddp.pc"
echo "installed ddp $version into $prefix: ${#installed[@]} headers, lib/libddp.so, lib/pkgconfig/ddp.pc"
