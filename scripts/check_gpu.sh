#!/usr/bin/env bash
# What the full check skips where there is no GPU, on a machine that has one: the tests of CUDA code against the CPU's.
#
#   scripts/check_gpu.sh                with the LibTorch of python3's torch, in build/gpu
#   scripts/check_gpu.sh --sanitize     and the kernels under compute-sanitizer
#   scripts/check_gpu.sh --python       and those of the Python package; needs Python's headers and pytest
#
# Installs nothing. Nearly all of the time is spent in compilers.
set -euo pipefail
cd "$(dirname "$0")/.."

sanitize=no
python=OFF
for argument in "$@"; do
  case $argument in
    --sanitize) sanitize=yes ;;
    --python) python=ON ;;
    *)
      echo "usage: scripts/check_gpu.sh [--sanitize] [--python]" >&2
      exit 2
      ;;
  esac
done
if ! nvidia-smi -L; then
  echo "check_gpu: nvidia-smi finds no GPU" >&2
  exit 1
fi

build=build/gpu
cmake -G Ninja -S . -B $build -DCMAKE_BUILD_TYPE=Release -DADAACT_BUILD_EXAMPLES=OFF \
  -DCMAKE_CUDA_ARCHITECTURES=native -DADAACT_NVJPEG="${ADAACT_NVJPEG:-AUTO}" -DADAACT_BUILD_PYTHON=$python -DPython_EXECUTABLE="$(command -v python3)" \
  -DCMAKE_PREFIX_PATH="$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')"
# Of all that there is only what runs on the GPU: programs of the same name as their tests, or without the ranks' number.
mapfile -t programs < <(ctest --test-dir $build -N -L cuda | sed -n 's/^ *Test *#[0-9]*: //p' | sed 's/_on_[0-9]$//' | sort -u)
if [ $python = ON ]; then
  programs=(all)
fi
cmake --build $build -j "$(nproc)" --target "${programs[@]}" adaact_tool gpu_images
# One after the other: several at once would share the GPU's memory, and wait for one another.
ctest --test-dir $build -L cuda --output-on-failure --no-tests=error
if [ $python = ON ]; then
  ctest --test-dir $build -R '^python_cuda_test$' --output-on-failure --no-tests=error
fi
if [ $sanitize = yes ]; then
  scripts/sanitize_kernels.sh $build
fi
