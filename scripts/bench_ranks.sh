#!/usr/bin/env bash
# Two ranks with a thread each against one rank with two threads, on two cores: ResNet-20, batches of 128 images, AdaAct
# and SGD. Prints medians of the repeats, which take turns, with the lowest and the highest, and holds them against the
# bars of docs/scaling.md.
#
#   scripts/bench_ranks.sh build/release/app/adaact [REPEATS [STEPS]]
#
# REPEATS is 7 and STEPS, of each optimizer, 20 where they are not given: five minutes on two cores, which should have
# nothing else to do.
set -euo pipefail
tool=$1
repeats=${2:-7}
steps=${3:-20}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Open MPI would give a rank one core. In a container it is root who starts it.
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

bench() {
  mpirun -n "$1" "$tool" bench --model resnet20 --batch-size 128 --optimizers adaact,sgd --steps "$steps" \
    --threads "$2" --json
}

for ((repeat = 1; repeat <= repeats; ++repeat)); do
  bench 1 2 >"$folder/one.$repeat.json"
  bench 2 1 >"$folder/two.$repeat.json"
  echo "repeat $repeat of $repeats" >&2
done

python3 - "$folder" "$repeats" "$steps" <<'PYTHON'
import json
import statistics
import sys

folder, repeats, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def optimizers_of(name):
    found = []
    for repeat in range(1, repeats + 1):
        with open(f"{folder}/{name}.{repeat}.json", encoding="utf-8") as file:
            found.append({each["optimizer"]: each for each in json.load(file)["optimizers"]})
    return found


one, two = optimizers_of("one"), optimizers_of("two")
print(f"ResNet-20, batch 128, {repeats} repeats of {steps} steps in turn, medians [lowest, highest]\n")


def show(text, value, digits=3, bar=None, least=False):
    """Of adaact and of sgd; `value` takes an optimizer's numbers on one rank and on two, in one repeat."""
    cells = []
    for optimizer in ("adaact", "sgd"):
        values = [value(a[optimizer], b[optimizer]) for a, b in zip(one, two)]
        middle = statistics.median(values)
        cell = f"{middle:.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"
        if bar is not None and (middle < bar if least else middle > bar):
            cell += " missed"
        cells.append(cell)
    text += f" (bar: {'≥' if least else '≤'} {bar})" if bar is not None else ""
    print(f"| {text} | {cells[0]} | {cells[1]} |")


print("| | AdaAct | SGD |\n|---|---|---|")
show("1 rank of 2 threads, ms a step", lambda a, b: a["ms_per_step"], 1)
show("2 ranks of 1 thread, ms a step", lambda a, b: b["ms_per_step"], 1)
show("2 ranks / 1 rank, time per image", lambda a, b: b["ms_per_step"] / a["ms_per_step"], bar=1.05)
show("hidden by the backward pass: gradients", lambda a, b: b["exchange"]["hidden"], bar=0.7, least=True)
show("hidden: gradients and statistics, of the time under way", lambda a, b: b["exchange"]["hidden_of_all"],
     bar=0.7, least=True)
show("waited for the exchange, ms a step", lambda a, b: b["exchange"]["waited_ms"], 2)
show("to SGD, 1 rank", lambda a, b: a["ratio_to_sgd"])
show("to SGD, 2 ranks", lambda a, b: b["ratio_to_sgd"], bar=1.05)
show("efficiency against a rank by itself", lambda a, b: b["exchange"]["efficiency"])
show("peak memory of a rank, MB", lambda a, b: b["peak_bytes"] / 1e6, 1)
show("the same of one process with 64 images, MB", lambda a, b: b["exchange"]["alone_peak_bytes"] / 1e6, 1)
show("a rank without its largest message / one process",
     lambda a, b: (b["peak_bytes"] - b["exchange"]["largest_message_bytes"]) / b["exchange"]["alone_peak_bytes"],
     bar=1.05)
PYTHON
