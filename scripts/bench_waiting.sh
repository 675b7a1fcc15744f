#!/usr/bin/env bash
# What a training step costs by how OpenMP's threads wait for one another: as the tool asks for (a short time of spinning,
# app/openmp_waiting.cpp), as GNU's OpenMP does by itself, for ever (active) and not at all (passive).
#
#   scripts/bench_waiting.sh build/release/app/adaact [ROUNDS [THREADS [MODEL [STEPS]]]]
#
# Each way takes its turn in each of the rounds (5), with 2 threads, LeNet-5 and 100 steps of SGD unless told otherwise.
# Prints the median milliseconds a step with the lowest and the highest round, and the machine's load before and after:
# on an idle machine all ways should take the same time, on a busy one the differences are what is measured.
set -euo pipefail

tool=${1:?usage: scripts/bench_waiting.sh TOOL [ROUNDS [THREADS [MODEL [STEPS]]]]}
rounds=${2:-5} threads=${3:-2} model=${4:-lenet5} steps=${5:-100}

ways=("the tool's own" "GNU's own" active passive)
settings=("" GOMP_SPINCOUNT=300000 OMP_WAIT_POLICY=active OMP_WAIT_POLICY=passive)
measured=$(mktemp -d)
trap 'rm -rf "$measured"' EXIT

milliseconds_of() {
  # shellcheck disable=SC2086  # a setting that is empty is none
  env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT $1 "$tool" bench --model "$model" --optimizers sgd \
    --threads "$threads" --steps "$steps" --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["optimizers"][0]["ms_per_step"])'
}

load() { cut -d' ' -f1-3 /proc/loadavg; }

before=$(load)
for ((round = 0; round < rounds; ++round)); do
  for i in "${!ways[@]}"; do milliseconds_of "${settings[i]}" >>"$measured/$i"; done
done
echo "$model, $threads threads, $steps steps of SGD, $rounds rounds; load before: $before, after: $(load)"
for i in "${!ways[@]}"; do
  sort -n "$measured/$i" | awk -v way="${ways[i]}" '{ ms[NR] = $1 } END {
    median = NR % 2 ? ms[(NR + 1) / 2] : (ms[NR / 2] + ms[NR / 2 + 1]) / 2
    printf "%-14s %8.2f ms a step [%.2f, %.2f]\n", way, median, ms[1], ms[NR] }'
done
