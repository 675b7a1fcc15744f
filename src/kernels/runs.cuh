#pragma once

// Neighbouring elements that a thread reads or writes at once.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace adaact::many_tensors {

/// Neighbouring elements that one thread reads or writes at once: 16 bytes at most.
template <typename Scalar, int kWidth>
struct alignas(kWidth * sizeof(Scalar)) Run {
  Scalar values[kWidth];
};

/// What the hardware moves at once.
template <std::size_t kBytes>
using Word = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<
        kBytes == 8, uint2,
        std::conditional_t<kBytes == 4, unsigned,
                           std::conditional_t<kBytes == 2, unsigned short, unsigned char>>>>;

/// A run as it was read. Taken apart, narrow elements would have a register each.
template <typename Scalar, int kWidth>
using Packed = Word<kWidth * sizeof(Scalar)>;

template <int kWidth, typename Scalar>
__device__ Packed<Scalar, kWidth> load_packed(const Scalar* from) {
  return *reinterpret_cast<const Packed<Scalar, kWidth>*>(from);
}

template <typename Scalar, int kWidth>
__device__ Run<Scalar, kWidth> unpacked(const Packed<Scalar, kWidth>& word) {
  Run<Scalar, kWidth> run;
  static_assert(sizeof(word) == sizeof(run));
  memcpy(&run, &word, sizeof(run));
  return run;
}

template <typename Scalar, int kWidth>
__device__ Packed<Scalar, kWidth> packed_word(const Run<Scalar, kWidth>& run) {
  Packed<Scalar, kWidth> word;
  static_assert(sizeof(word) == sizeof(run));
  memcpy(&word, &run, sizeof(run));
  return word;
}

template <int kWidth, typename Scalar>
__device__ Run<Scalar, kWidth> load(const Scalar* from) {
  return unpacked<Scalar, kWidth>(load_packed<kWidth>(from));
}

template <int kWidth, typename Scalar>
__device__ void store(Scalar* to, const Run<Scalar, kWidth>& run) {
  __stwb(reinterpret_cast<Packed<Scalar, kWidth>*>(to),
         packed_word(run));  // a plain store may be taken apart
}

/// True if runs of each of the arrays can be read at once; null counts as aligned.
template <int kWidth, typename... Scalar>
bool aligned_for_runs(const Scalar*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % alignof(Run<Scalar, kWidth>) == 0) && ...);
}

}  // namespace adaact::many_tensors
