#!/usr/bin/env bash
# Runs the tests of the CUDA kernels under compute-sanitizer, on a machine with a GPU:
#
#   scripts/sanitize_kernels.sh build/release
#
# Some twenty minutes. Only this library's kernels are watched. What one test asks for, an allocation that
# fails, is no error here.
set -euo pipefail

build=${1:?usage: scripts/sanitize_kernels.sh BUILD_FOLDER}

sanitize() {
  local tool=$1 test=$2 cases=$3
  echo "=== $tool: $test, $cases"
  compute-sanitizer --tool "$tool" --kernel-regex kns=adaact --report-api-errors no \
    --error-exitcode 1 "$build/tests/$test" --gtest_filter="$cases" --gtest_brief=1
}

# Of most drawn shapes there are several hundred, of the largest input more than 2^32 elements.
sanitize memcheck second_moments_cuda_test '-*MoreThan32Bits*'
sanitize memcheck multi_tensor_cuda_test '-*Drawn*'
sanitize memcheck device_batches_cuda_test '*'
sanitize memcheck fused_layers_cuda_test '-*IsThePlainOneForDrawnShapes*:*AreThePlainOnesAfterTwentySteps*'
sanitize memcheck cross_entropy_cuda_test '*'
sanitize memcheck max_pool_cuda_test '-*Drawn*'
sanitize memcheck offered_squares_cuda_test '-*Drawn*'
sanitize memcheck narrow_weights_cuda_test 'ConvertManyCuda*'
sanitize memcheck graph_training_cuda_test 'CapturedFills*'
sanitize memcheck image_batch_cuda_test '-*NearlyTheSame*'
sanitize racecheck second_moments_cuda_test '*EverySum*:*RealNetworks*:*EveryProportion*:*Signals*:*Unaligned*'
sanitize racecheck multi_tensor_cuda_test '*Large*:*EqualInputs*:*Replays*:*GlobalNorm*:*OneElement*'
sanitize racecheck device_batches_cuda_test '*'
# Of the fused layers every kernel: both passes of batch normalisation, rows of layer normalisation with and without their
# sums, GELU, pooling, shortcuts and copies of channels.
sanitize racecheck fused_layers_cuda_test '*EqualInputs*:*ChannelsOfALarger*:*ChainsOfNormsAre*:*ChainsOfNormsUnder*:*LayersOfTransformers*:*FeaturesAreThoseOfCat*:*GlobalAverage*:*AveragePool*:*Shortened*'
sanitize racecheck cross_entropy_cuda_test '*EqualInputs*:*RowsMayBeApart*'
sanitize racecheck max_pool_cuda_test '*EqualInputs*:*EveryDtype*'
sanitize racecheck offered_squares_cuda_test '*AddUpForTheShapes*:*OfBatchNormCome*:*GiveConvolutions*'
sanitize racecheck narrow_weights_cuda_test 'ConvertManyCuda*'
sanitize racecheck image_batch_cuda_test '*EveryOperation*'
