#!/bin/sh
# How long a sweep takes beside its runs one by one: nine of LeNet-5 on Fashion-MNIST, three epochs each.
#
#   scripts/sweep_overhead.sh build/release/app/adaact [IMAGES]
#
# IMAGES limits the training images; 0, which is the default, takes all. Runs by themselves have all cores, as
# `adaact train` has by default. The last line is the ratio.
set -eu
tool=$1
images=${2:-0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

common="--model lenet5 --dataset fashion-mnist --epochs 3 --limit-train $images --quiet"

seconds() { date +%s.%N; }

begin=$(seconds)
for optimizer in adaact sgd adam; do
  for lr in 0.01 0.03 0.1; do
    # shellcheck disable=SC2086
    "$tool" train --out "$folder/alone-$optimizer-$lr" --optimizer "$optimizer" --lr "$lr" $common
  done
done
between=$(seconds)
# shellcheck disable=SC2086
"$tool" sweep --out "$folder/sweep" --optimizers adaact,sgd,adam --lr 0.01,0.03,0.1 --no-halving $common
end=$(seconds)
# shellcheck disable=SC2086
"$tool" sweep --out "$folder/halving" --optimizers adaact,sgd,adam --lr 0.01,0.03,0.1 $common
last=$(seconds)
echo "$begin $between $end $last" | awk '{
  printf "nine runs by themselves: %.1f s\nas a sweep, to the end: %.1f s\nwith halving: %.1f s\nratio: %.2f\n",
    $2 - $1, $3 - $2, $4 - $3, ($3 - $2) / ($2 - $1) }'
