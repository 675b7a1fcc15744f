#!/usr/bin/env bash
# Runs the tests of the CUDA kernels under compute-sanitizer, on a machine with a GPU:
#
#   scripts/sanitize_kernels.sh build/release
#
# Some ten minutes. Only this library's kernels are watched. What one test asks for, an allocation that
# fails, is no error here.
set -euo pipefail

build=${1:?usage: scripts/sanitize_kernels.sh BUILD_FOLDER}

sanitize() {
  local tool=$1 test=$2 cases=$3
  echo "=== $tool: $test, $cases"
  compute-sanitizer --tool "$tool" --kernel-regex kns=adaact --report-api-errors no \
    --error-exitcode 1 "$build/tests/$test" --gtest_filter="$cases" --gtest_brief=1
}

# Of the drawn shapes there are several hundred, of the largest input more than 2^32 elements.
sanitize memcheck second_moments_cuda_test '-*MoreThan32Bits*'
sanitize memcheck multi_tensor_cuda_test '-*Drawn*'
sanitize memcheck device_batches_cuda_test '*'
sanitize racecheck second_moments_cuda_test '*EverySum*:*RealNetworks*:*EveryProportion*:*Signals*:*Unaligned*'
sanitize racecheck multi_tensor_cuda_test '*Large*:*EqualInputs*:*Replays*:*GlobalNorm*:*OneElement*'
sanitize racecheck device_batches_cuda_test '*'
