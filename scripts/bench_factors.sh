#!/usr/bin/env bash
# What FOOF, KFAC and AdaAct's full covariance gain from a second rank, which takes its share of the inverses too:
# ResNet-20, batches of 128 images, ranks of one thread, inverses in every fifth step, so that few steps have their share
# of them. Prints medians of the repeats, which take turns, with the lowest and the highest.
#
#   scripts/bench_factors.sh build/release/app/adaact [REPEATS [STEPS]]
#
# REPEATS is 3 and STEPS, of each optimizer, 15 where they are not given: five minutes on two cores, which should have
# nothing else to do.
set -euo pipefail
tool=$1
repeats=${2:-3}
steps=${3:-15}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mpirun="$(dirname "$0")/../tests/ranks/mpirun.sh mpirun"

for ((repeat = 1; repeat <= repeats; ++repeat)); do
  for ranks in 1 2; do
    $mpirun -n "$ranks" "$tool" bench --model resnet20 --batch-size 128 --optimizers foof,kfac,adaact,sgd \
      --options-of 'foof={"inverse_period":5}' --options-of 'kfac={"inverse_period":5}' \
      --options-of 'adaact={"covariance":"full","refresh_period":5}' \
      --steps "$steps" --threads 1 --json >"$folder/$ranks.$repeat.json"
  done
  echo "repeat $repeat of $repeats" >&2
done

python3 - "$folder" "$repeats" "$steps" <<'PYTHON'
import json
import statistics
import sys

folder, repeats, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
NAMES = ("foof", "kfac", "adaact", "sgd")


def milliseconds_on(ranks):
    found = []
    for repeat in range(1, repeats + 1):
        with open(f"{folder}/{ranks}.{repeat}.json", encoding="utf-8") as file:
            found.append({each["optimizer"]: each["ms_per_step"] for each in json.load(file)["optimizers"]})
    return found


one, two = milliseconds_on(1), milliseconds_on(2)


def show(text, value, digits):
    """`value` takes an optimizer's name and what all optimizers take on one rank and on two, in one repeat."""
    cells = []
    for name in NAMES:
        values = [value(name, a, b) for a, b in zip(one, two)]
        middle = statistics.median(values)
        cells.append(f"{middle:.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]")
    print(f"| {text} | {' | '.join(cells)} |")


print(f"ResNet-20, batch 128, {repeats} repeats of {steps} steps in turn, medians [lowest, highest]\n")
print("| | FOOF | KFAC | AdaAct, full covariance | SGD |\n|---|---|---|---|---|")
show("1 rank of 1 thread, ms a step", lambda name, a, b: a[name], 1)
show("2 ranks of 1 thread, ms a step", lambda name, a, b: b[name], 1)
show("2 ranks / 1 rank", lambda name, a, b: b[name] / a[name], 3)
show("more than SGD, 1 rank, ms", lambda name, a, b: a[name] - a["sgd"], 1)
show("more than SGD, 2 ranks, ms", lambda name, a, b: b[name] - b["sgd"], 1)
PYTHON
