#!/bin/bash
# Proves the README's two commands on a machine that has nothing: a Debian 12 as debootstrap makes
# it (minbase), with the last commit of this repository in it. As root:
#
#   tests/fresh_machine.sh [--dir=DIR] [--keep] [COMMAND...]
#
#   --dir=DIR   makes the machine in DIR instead of a new directory under /var/tmp; one that is
#               there already is used as it is, which saves the installation of a second run
#   --keep      leaves the machine there, and says how to enter it
#   COMMAND     runs these instead of the README's, each one string: './bazelw test //ops/...'
#
# Needs debootstrap and 5 GB. Packages come from where this machine's apt gets them. Mounts and
# processes live in namespaces of their own: whatever happens, they end with this script.
set -eu -o pipefail

readonly suite=bookworm
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly checkout=/srv/ddp      # in the new machine
readonly marker=.fresh_machine # a file at its root: this directory is ours, and may be removed

dir=''
keep=0
commands=()

say() { printf '== %s\n' "$*"; }
die() { printf 'fresh_machine: %s\n' "$*" >&2; exit 1; }

parse_arguments() {
  local argument
  for argument in "$@"; do
    case $argument in
      --dir=*) dir=${argument#--dir=} ;;
      --keep) keep=1 ;;
      --*) die "unknown option $argument" ;;
      *) commands+=("$argument") ;;
    esac
  done
}

check_this_machine() {
  [[ $(id -u) == 0 ]] || die "must run as root: it makes mounts and changes root"
  type -P debootstrap >/dev/null || die "needs the Debian package debootstrap"
  [[ -z $(git -C "$repository" status --porcelain) ]] ||
    say "note: the last commit is tested, without the changes that are not committed"
}

# Prints this machine's apt sources of the suite, as "deb SITE RELEASE COMPONENT".
apt_sources() {
  apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v suite="$suite" 'index($3, suite) == 1' | sort -u
}

make_machine() {
  local sources mirror include=()
  if [[ -e $dir/$marker ]]; then
    say "using the machine in $dir"
    return
  fi
  sources=$(apt_sources)
  mirror=$(awk -v suite="$suite" '$3 == suite { print $2; exit }' <<<"$sources")
  [[ -n $mirror ]] || die "this machine's apt knows no $suite: run apt-get update, or use Debian 12"
  [[ $mirror != https:* ]] || include=(--include=ca-certificates)
  say "debootstrap into $dir"
  debootstrap --variant=minbase "${include[@]}" "$suite" "$dir" "$mirror" >"$logs/debootstrap" ||
    { tail -20 "$logs/debootstrap"; die "debootstrap failed"; }
  echo "$sources" >"$dir/etc/apt/sources.list"
  # What it takes to reach the mirror: proxies, time-outs, certificates.
  apt-config dump | grep -E '^Acquire::(Check-|Retries|ftp|http|https)' \
    >"$dir/etc/apt/apt.conf.d/99fresh-machine" || true
  touch "$dir/$marker"
}

copy_checkout() {
  rm -rf "${dir:?}$checkout"
  git clone --quiet --depth=1 "file://$repository" "$dir$checkout"
  cp -L /etc/resolv.conf /etc/hosts "$dir/etc/"
}

# inside USER COMMAND: runs a shell command in the checkout, in the new machine.
inside() {
  unshare --mount --propagation=private --pid --fork --kill-child bash -eu -c '
    mount --bind "$1" "$1" # a root that is no mount point would forbid namespaces inside
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    exec env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
      chroot --userspec="$2" "$1" bash -c "cd $3 && $4"
  ' bash "$dir" "$1" "$checkout" "$2"
}

# Without root and without sudo, bazelw installs nothing and says what an administrator must run.
check_that_a_user_is_told() {
  local log=$logs/user
  say "./bazelw as a user, without sudo"
  if inside nobody './bazelw test //...' </dev/null >"$log" 2>&1; then
    cat "$log"
    die "bazelw went on without what it needs"
  fi
  tail -2 "$log"
  tail -1 "$log" | grep -q '^apt-get update && apt-get install ' ||
    die "bazelw did not say what an administrator must run"
}

run_command() {
  local log=$logs/command start=$SECONDS exit_code=0
  say "$1"
  inside root "$1" </dev/null 2>&1 | tee "$log" || exit_code=$?
  say "$1: exit code $exit_code after $((SECONDS - start)) s"
  [[ $exit_code == 0 ]] || die "this command failed: $1"
}

# The first and the last "loss 1.234" of the output (or "loss: ", "loss="); and two ranks.
check_training() {
  local log=$logs/command
  grep -qiE '\b2 ranks|world.?size[ =:]+2\b' "$log" || die "the output does not say that there are 2 ranks"
  grep -oiE '\bloss[ =:]+[0-9.]+' "$log" | grep -oE '[0-9.]+$' | awk '
    NR == 1 { first = $1 }
    { last = $1 }
    END { print "loss: first " first ", last " last; exit !(NR > 1 && last < first) }' ||
    die "the loss does not fall"
}

clean_up() {
  rm -rf "$logs"
  if [[ $keep == 0 ]]; then
    # One file system: should a mount be left after all, what is behind it survives.
    rm -rf --one-file-system "$dir"
  else
    say "the machine is in $dir: chroot $dir (mount /proc there first)"
  fi
}

parse_arguments "$@"
check_this_machine
[[ -n $dir ]] || dir=$(mktemp -d /var/tmp/fresh_machine.XXXXXX)
mkdir -p "$dir"
chmod 755 "$dir" # mktemp makes it private, but it is the root directory of every user inside
[[ -e $dir/$marker || -z $(ls -A "$dir") ]] || die "$dir is neither empty nor made by this script"
dir=$(cd "$dir" && pwd)
logs=$(mktemp -d)
trap clean_up EXIT
trap 'exit 130' INT TERM

make_machine
copy_checkout
[[ -x $dir/usr/bin/bazel ]] || check_that_a_user_is_told
if [[ ${#commands[@]} == 0 ]]; then
  run_command './bazelw run //launch:train'
  check_training
  run_command './bazelw test //...'
else
  for command in "${commands[@]}"; do run_command "$command"; done
fi
say "passed"
