#!/usr/bin/env bash
# Runs the benchmarks of a build on two threads, prints the table and writes JSON beside the build.
#
#   scripts/bench.sh build/release [more flags for Google Benchmark, such as --benchmark_filter=step]
set -euo pipefail

build=$1
shift
# Two threads whatever the machine has: the bars in docs/benchmarks.md are set for two.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
"$build/bench/adaact_bench" \
  --benchmark_repetitions=9 \
  --benchmark_enable_random_interleaving=true \
  --benchmark_min_time=0.1 \
  --json="$build/bench.json" \
  "$@"
echo
echo "JSON: $build/bench.json"
