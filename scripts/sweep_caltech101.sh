#!/bin/sh
# Trains a model from scratch on the photographs of Caltech-101 by every optimizer of the paper's ImageNet tables, each
# with three learning rates, by the recipe of those tables:
#
#   scripts/sweep_caltech101.sh build/release/app/adaact IMAGES OUT MODEL [OPTION...]
#
# IMAGES has train/ and val/ with a folder for each class; MODEL is resnet50 or vit_small, or another one that
# `adaact info` names. Further options are those of `adaact sweep` that are not given here, such as
# `--device cuda --precision bf16 --workers 16`. EPOCHS (100) and SIDE (128) of the environment make it smaller:
# with EPOCHS=1 SIDE=32 and `--limit-train 505` one sees in minutes whether all of it works. The same command goes on
# after an interruption.
set -eu
tool=$1
images=$2
out=$3
model=$4
shift 4
epochs=${EPOCHS:-100}

# Trials are not stopped early: after a few epochs of so much augmentation little tells a good rate from a bad one.
exec "$tool" sweep --out "$out" --data-dir "$images" --model "$model" \
  --optimizers adaact,sgd,adam,adamw,lamb,sam --lr 0.03,0.1,0.3 \
  --lr-of adam=0.0003,0.001,0.003 --lr-of adamw=0.0003,0.001,0.003 --lr-of lamb=0.001,0.003,0.01 \
  --image-size "${SIDE:-128}" --crop resized --crop-ratio 0.95 --rand-augment rand-m7-mstd0.5-inc1 \
  --mixup 0.1 --cutmix 1 --flip on --batch-size 128 \
  --epochs "$epochs" --schedule cosine --warmup-epochs $((epochs / 20)) --no-halving "$@"
