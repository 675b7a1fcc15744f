#!/usr/bin/env bash
# Feeds every reader of files with libFuzzer, under the address and undefined sanitizers of clang. Builds
# first (preset fuzz), then reads all files of tests/fuzz/corpus and tests/fuzz/regressions, then goes on to
# inputs that nobody has seen.
#
#   scripts/fuzz.sh                          every target for ten seconds
#   scripts/fuzz.sh --seconds 600 png jpeg   these two, ten minutes each
#   scripts/fuzz.sh --list                   the targets
#   scripts/fuzz.sh --write-seeds            tests/fuzz/corpus anew, from the seeds in the targets' sources
#
#   --jobs N         targets side by side; 1
#   --longest BYTES  of an input; 8192
#   --table FILE     also write the closing table there
#   --no-build       as it was built last
#
# An input may take a second of the processor (sanitizers make it less than half a second of a release; a second
# by the clock would find fault with a busy machine) and as much memory as its target allows for its
# size (tests/fuzz/input_limits.h). libFuzzer itself ends what takes ten seconds by the clock or a gigabyte
# in all. The stack is an eighth of the usual, so that a short input shows what a long one would do to it.
#
# Inputs that did harm lie in build/fuzz/findings/<target>; what was learned, in build/fuzz/learned/<target>,
# is where the next run begins.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=10
jobs=1
longest=8192
table=
build=yes
action=fuzz
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    --longest) longest=$2; shift 2 ;;
    --table) table=$2; shift 2 ;;
    --no-build) build=no; shift ;;
    --list) action=list; shift ;;
    --write-seeds) action=seeds; shift ;;
    -*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done

if [ $build = yes ]; then
  scripts/bootstrap.sh --fuzz
  mkdir -p build
  cmake --preset fuzz >build/configure-fuzz.log 2>&1 || { cat build/configure-fuzz.log >&2; exit 1; }
  cmake --build --preset fuzz -j "$(nproc)"
fi
export readers=$PWD/build/fuzz/tests/fuzz/fuzz_readers
corpus=$PWD/tests/fuzz/corpus
case $action in
  list) exec "$readers" --list ;;
  seeds) exec "$readers" "--write-seeds=$corpus" ;;
esac

mapfile -t known < <("$readers" --list)
[ ${#targets[@]} -gt 0 ] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  # Not through a pipe into grep -q: it may close the pipe before all names are written, which counts as a failure.
  if [[ " ${known[*]} " != *" $target "* ]]; then
    echo "fuzz: there is no target '$target'; there are: ${known[*]}" >&2
    exit 2
  fi
done

# Files of readers that take a path, in memory where there is such a place.
place=/tmp
[ -w /dev/shm ] && place=/dev/shm
TMPDIR=$(mktemp -d $place/adaact_fuzz_XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
export ASAN_OPTIONS=quarantine_size_mb=8:detect_odr_violation=0
export OMP_WAIT_POLICY=passive
export corpus seconds longest

# The words of a target's format, for libFuzzer to try.
dictionary_of() {
  case $1 in
    jpeg | picture) echo tests/fuzz/dictionaries/jpeg.dict ;;
    webp | exif) echo tests/fuzz/dictionaries/webp.dict ;;
    png | idx_* | cifar | class_names | image_folder | shard) ;;
    *) echo tests/fuzz/dictionaries/json.dict ;;
  esac
}

# What went wrong, of the last run in a log. libFuzzer's own summary of what the target reports says nothing.
reason() {
  grep -aE '^(bug:|terminate|SUMMARY: (Addr|Leak))|^==[0-9]+== ?ERROR: libFuzzer: [^d]|runtime error:' "$1" |
    tail -1
}

run_target() {
  local target=$1 folder left work=build/fuzz
  local log=$work/logs/$target.log failures=$work/logs/$target.failures
  local findings=$work/findings/$target learned=$work/learned/$target
  local known=("$corpus/$target") words
  mkdir -p $work/logs "$findings" "$learned"
  : >"$log"
  : >"$failures"
  [ ! -d "tests/fuzz/regressions/$target" ] || known+=("tests/fuzz/regressions/$target")
  local run=("$readers" "--target=$target" -timeout=10 -rss_limit_mb=1024 -max_len="$longest"
    -print_final_stats=1 "-artifact_prefix=$findings/")
  words=$(dictionary_of "$target")
  [ -z "$words" ] || run+=("-dict=$words")
  ulimit -s 1024

  for folder in "${known[@]}"; do
    "${run[@]}" "$folder"/* >>"$log" 2>&1 && continue
    echo "$(grep -a '^Running: ' "$log" | tail -1 | cut -d' ' -f2): $(reason "$log")" >>"$failures"
  done
  local end=$((SECONDS + seconds))
  while left=$((end - SECONDS)) && [ $left -gt 0 ] && [ "$(wc -l <"$failures")" -lt 10 ]; do
    "${run[@]}" "-max_total_time=$left" "$learned" "${known[@]}" >>"$log" 2>&1 && break
    echo "$findings/: $(reason "$log")" >>"$failures"
  done
  sed "s/^/fuzz: $target: /" "$failures" >&2
}
export -f run_target reason dictionary_of

printf '%s\0' "${targets[@]}" | xargs -0 -P "$jobs" -I '{}' bash -c 'run_target "$1"' run '{}'

# Sums of a number over the runs of a log, or the largest of them.
stat_of() {
  awk -v name="stat::$2:" -v how="$3" '
    $1 != name { next }
    { if (how == "sum") total += $2; else if ($2 > total) total = $2 }
    END { print total + 0 }' "build/fuzz/logs/$1.log"
}

total=0
failed=0
print_table() {
  printf '%-18s %12s %9s %9s %11s %12s %8s\n' target executions per_second failures slowest_ms \
    largest_KiB RSS_MB
  local target executions failures
  for target in "${targets[@]}"; do
    executions=$(stat_of "$target" number_of_executed_units sum)
    failures=$(wc -l <"build/fuzz/logs/$target.failures")
    printf '%-18s %12d %9d %9d %11s %12d %8d\n' "$target" "$executions" \
      $((executions / (seconds > 0 ? seconds : 1))) "$failures" \
      "$(stat_of "$target" slowest_input_ms most)" \
      "$(stat_of "$target" largest_input_kib most)" "$(stat_of "$target" peak_rss_mb most)"
    total=$((total + executions))
    failed=$((failed + failures))
  done
  printf '%-18s %12d %9s %9d\n' "in all" "$total" "" "$failed"
}
print_table >"$TMPDIR/table"
cat "$TMPDIR/table"
[ -z "$table" ] || cp "$TMPDIR/table" "$table"
[ $failed -eq 0 ]
