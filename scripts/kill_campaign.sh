#!/usr/bin/env bash
# Kills trainings again and again, resumes them, and compares what comes out in the end with trainings that
# were left in peace.
#
#   scripts/kill_campaign.sh [KILLS [SEED [TOOL [FOLDER [RANKS]]]]]
#
#   KILLS   how many; 1000
#   SEED    of everything that the campaign draws; 1
#   TOOL    build/release/app/adaact
#   FOLDER  for the runs, made and removed; empty: below TMPDIR
#   RANKS   how many processes mpirun starts for a run, one of which is killed; several numbers, as 2,3, take turns; 1
#
# Exit code 1 where an end differs or a process ended otherwise than it should, 77 where mpirun is needed and missing.
# Where a file system can be mounted, half of the runs are in a small one that fills up; scripts/kill_campaign.py has
# the rest.
set -euo pipefail
campaign=$(dirname "$(realpath "$0")")/kill_campaign.py
kills=${1:-1000}
seed=${2:-1}
tool=$(realpath "${3:-build/release/app/adaact}")
folder=${4:-$(mktemp -d)}
ranks=${5:-1}
mkdir -p "$folder/disk" "$folder/small"
trap 'rm -rf "$folder"' EXIT
if [ "$ranks" != 1 ] && ! command -v mpirun >/dev/null; then
  echo "skipped: there is no mpirun; Debian has it in openmpi-bin"
  exit 77
fi

# A process's own view of the file systems ends with it, and what it mounted too.
small='mount -t tmpfs -o size=24m tmpfs "$1/small"'
if unshare -rm bash -c "$small" - "$folder" 2>/dev/null; then
  unshare -rm bash -c "$small"' && python3 "$2" --kills "$3" --seed "$4" --tool "$5" --ranks "$6" --disk "$1/disk" --small "$1/small"' \
    - "$folder" "$campaign" "$kills" "$seed" "$tool" "$ranks"
else
  echo "no file system can be mounted here: a full disk is a limit on the size of files in all runs"
  python3 "$campaign" --kills "$kills" --seed "$seed" --tool "$tool" --ranks "$ranks" --disk "$folder/disk"
fi
