#!/usr/bin/env bash
# Seconds that targets of the Makefile take in a fresh clone, each in its own, without ccache:
#
#   scripts/time_fresh_clone.sh demo test
#
# What is committed is measured. Packages that are missing are installed by the first target; the time of
# both processors together, user and system, tells whether the machine had other work.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1

echo "$(nproc) cores, $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1); load$(uptime | sed 's/.*load average//')"
for target in "$@"; do
  git clone --quiet "$root" "$work/$target"
  status=0
  TIMEFORMAT="make $target: %0R s, %0U s user, %0S s system"
  time make -C "$work/$target" "$target" >"$work/$target.log" 2>&1 || status=$?
  grep -h '^-- LibTorch' "$work/$target.log" || true
  if [ $status -ne 0 ]; then
    tail -50 "$work/$target.log"
    exit 1
  fi
done
