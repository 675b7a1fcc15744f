#!/usr/bin/env bash
# Trains LeNet-5 on Fashion-MNIST with three optimizers, compares them and draws a report.
#
#   scripts/demo.sh build/release/app/adaact [FOLDER]
#
# Runs that are finished already are not repeated.
set -euo pipefail

tool=$1
folder=${2:-build/demo}
mkdir -p "$folder"

train() {
  local name=$1
  shift
  echo
  echo "== LeNet-5 on Fashion-MNIST, three epochs with $name"
  "$tool" train --out "$folder/$name" --resume --model lenet5 --dataset fashion-mnist --no-augment \
    --epochs 3 --seed 1 "$@"
}

train adaact --optimizer adaact --lr 0.1
train sgd --optimizer sgd --lr 0.05
train adam --optimizer adam --lr 0.001
echo
"$tool" report "$folder/adaact" "$folder/sgd" "$folder/adam" --out "$folder/report.html"
