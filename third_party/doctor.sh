#!/bin/bash
# Prints what this project uses from the machine: found or not, version, where, and what it is for,
# which is what is unavailable without it. Run it with `bazel run //third_party:doctor`.
#
# Packages are looked for anew; for CUDA, and for what is switched off, Bazel's own view is shown.
set -u

runfiles="${BASH_SOURCE[0]}.runfiles/ddp"
[[ -d $runfiles ]] && cd "$runfiles"

row() { printf '%-24s %-6s %-24s %-50s %s\n' "$@"; }
trim() { read -r "$1" <<<"$2"; }

# Prints where a path or a command is; fails if it is nowhere.
where_is() {
  if [[ $1 == /* ]]; then [[ -e $1 ]] && echo "$1"; else type -P "$1"; fi
}

# Prints the version of a Debian package without epoch and revision.
package_version() {
  local version
  version=$(dpkg-query -W -f '${Version}' "$1" 2>/dev/null)
  version=${version#*:}
  echo "${version%-*}"
}

# Prints MAJOR.MINOR.PATCH from the macros of a header: macro_version FILE PREFIX
macro_version() {
  local part version=''
  for part in MAJOR MINOR PATCH; do
    version+=.$(sed -n "s/^#define *$2$part *\([0-9]*\).*/\1/p" "$1")
  done
  echo "${version#.}"
}

print_packages() {
  local group package probe purpose where version
  while IFS='|' read -r group package probe purpose; do
    [[ -z $group || $group == \#* ]] && continue
    trim group "$group"
    trim package "$package"
    trim probe "$probe"
    trim purpose "$purpose"
    if grep -qx "$package" external/machine/switched_off.txt; then
      row "$package" off - - "$purpose"
    elif where=$(where_is "$probe"); then
      version=$(package_version "$package")
      row "$package" yes "${version:-?}" "$where" "$purpose"
    else
      row "$package" no - - "$purpose"
      [[ $group == build || $group == test ]] && missing+=("$package")
    fi
  done <third_party/packages.txt
}

# cuda_row NAME WHERE PURPOSE COMMAND...: the command prints the version.
cuda_row() {
  if [[ -n $2 ]]; then
    row "$1" yes "$("${@:4}")" "$2" "$3"
  else
    row "$1" "$if_absent" - - "$3"
  fi
}

nvcc_version() { "$1/bin/nvcc" --version | sed -n 's/.*, V//p'; }
driver_version() { sed -n 's/.*Kernel Module[^0-9]*\([0-9.]*\).*/\1/p' /proc/driver/nvidia/version; }

# Prints the GPUs that the driver knows, such as "4 x NVIDIA H200".
gpus() {
  cat /proc/driver/nvidia/gpus/*/information 2>/dev/null | sed -n 's/^Model:[[:space:]]*//p' |
    sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /' | paste -sd,
}

print_cuda() {
  local if_absent toolkit cublas nccl driver=''
  IFS='|' read -r if_absent toolkit cublas nccl <external/cuda/found.txt
  cuda_row "CUDA toolkit" "$toolkit" "kernels for NVIDIA GPUs" nvcc_version "$toolkit"
  cuda_row cuBLAS "$cublas" "matrix products on a GPU" \
    macro_version "${cublas%/*}/cublas_api.h" CUBLAS_VER_
  cuda_row NCCL "$nccl" "collectives between GPUs" macro_version "$nccl" NCCL_
  if_absent=no
  [[ -r /proc/driver/nvidia/version ]] && driver=$(gpus)
  cuda_row "NVIDIA driver, GPUs" "$driver" "running on a GPU" driver_version
}

missing=()
row dependency found version where "used for (unavailable without it)"
print_packages
print_cuda
echo
if [[ ${#missing[@]} == 0 ]]; then
  echo "Everything that the build and its tests need is here."
else
  echo "Missing: ${missing[*]}. Run ./bazelw, which installs them."
fi
