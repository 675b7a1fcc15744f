#!/usr/bin/env bash
# Installs the packages of `make deb` in a fresh Debian 12 and uses them there as a stranger would: trains,
# exports, reads the man page, builds examples/find_package against libadaact-dev.
#
#   scripts/check_deb.sh [FOLDER]     where the new system goes; made, and removed at the end
#
# Needs root and debootstrap (apt-get install debootstrap), and exits with 77 where it has not. Takes the packages
# of Debian from the mirror that this system uses.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "check_deb: skipped: $*"
  exit 77
}

[ "$(id -u)" -eq 0 ] || skip "only root can make a system to install into"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
packages=(build/deb/packages/*.deb)
[ -f "${packages[0]}" ] || { echo "check_deb: no packages; run make deb first" >&2; exit 2; }

root=${1:-$(mktemp -d)/system}
[ ! -e "$root" ] || { echo "check_deb: $root exists already" >&2; exit 2; }
log=$(mktemp)
clean_up() {
  if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
  rm -rf --one-file-system "$root" "$log"
}
trap clean_up EXIT

quietly() {
  if ! "$@" >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "check_deb: failed: $*" >&2
    exit 1
  fi
}
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
  DEBIAN_FRONTEND=noninteractive OMP_WAIT_POLICY=passive ${http_proxy:+http_proxy="$http_proxy"} "$@"; }
step() { echo "check_deb: $*, $SECONDS s"; }

# The first mirror that this system names, in either of the two forms of its list.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
  sed -nE '/security/!s/^(deb |URIs: ).*(https?:[^ ]+).*/\2/p' | sed -n '1p' || true)
quietly debootstrap --variant=minbase bookworm "$root" "${mirror:-http://deb.debian.org/debian}"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
mount -t proc proc "$root/proc"
step "a fresh Debian 12 is there"

mkdir -p "$root/packages"
cp "${packages[@]}" "$root/packages/"
quietly inside apt-get update
quietly inside sh -c 'apt-get install -y --no-install-recommends /packages/libadaact0*.deb /packages/adaact_*.deb'
step "the tool is installed"

inside adaact info
inside adaact train --out /tmp/run --dataset synthetic --limit-train 256 --limit-test 64 --epochs 1
quietly inside adaact export --run /tmp/run /tmp/model.pt
for file in /usr/share/man/man1/adaact.1* /usr/share/bash-completion/completions/adaact \
  /usr/share/doc/adaact/copyright; do
  inside sh -c "test -s $file" || { echo "check_deb: $file is missing" >&2; exit 1; }
done
if inside ldd /usr/bin/adaact | grep "not found"; then exit 1; fi
step "the tool trains and exports"

quietly inside sh -c 'apt-get install -y --no-install-recommends /packages/libadaact-dev*.deb cmake g++ make'
cp -r examples/find_package "$root/tmp/example"
quietly inside cmake -S /tmp/example -B /tmp/build
quietly inside cmake --build /tmp/build
inside /tmp/build/regression
inside /tmp/build/train_lenet5
step "a program is built against libadaact-dev and runs"

quietly inside apt-get purge -y adaact libadaact-dev 'libadaact0*'
if inside find /usr -iname '*adaact*' | grep .; then
  echo "check_deb: the packages leave files behind" >&2
  exit 1
fi
step "the packages work, and leave nothing when they go"
