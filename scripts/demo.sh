#!/usr/bin/env bash
# Trains LeNet-5 on Fashion-MNIST with three optimizers side by side, compares them and draws a report.
#
#   scripts/demo.sh build/release/app/adaact [FOLDER]
#
# Runs that are finished already are not repeated.
set -euo pipefail

tool=$1
folder=${2:-build/demo}
mkdir -p "$folder"
cores=$(nproc)
# Side by side with the threads shared out: a network this small keeps few of them busy.
threads=$((cores > 3 ? cores / 3 : 1))

names=()
trainings=()
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# All that it says goes to a file, the lines of its epochs are shown with its name.
train() {
  local name=$1
  shift
  "$tool" train --out "$folder/$name" --resume --model lenet5 --dataset fashion-mnist \
    --no-augment --limit-train 30000 \
    --epochs 3 --seed 1 --threads "$threads" "$@" 2>&1 | tee "$folder/$name.log" |
    sed -nu "s/^ *[0-9]\+  /$(printf '%-11s' "$name")&/p" &
  names+=("$name")
  trainings+=($!)
}

echo
echo "LeNet-5 on 30,000 images of Fashion-MNIST, three epochs with three optimizers side by side"
echo "optimizer  epoch  train loss  train top-1  test loss  test top-1  test top-5  seconds  images/s"
train adaact --optimizer adaact --lr 0.1
train sgd --optimizer sgd --lr 0.05
train adam --optimizer adam --lr 0.001
for index in "${!trainings[@]}"; do
  wait "${trainings[index]}" || { cat "$folder/${names[index]}.log" >&2; exit 1; }
done
echo
"$tool" report "$folder/adaact" "$folder/sgd" "$folder/adam" --out "$folder/report.html"
