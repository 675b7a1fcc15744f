#pragma once

#include <memory>

#include <c10/core/Stream.h>
#include <torch/types.h>

namespace adaact {

/// A stream of a GPU that is nobody else's. LibTorch hands out 32 in turn, so that one of its own may be another
/// thread's too, who captures a graph on it.
class OwnCudaStream {
 public:
  explicit OwnCudaStream(torch::Device device);
  ~OwnCudaStream();
  OwnCudaStream(const OwnCudaStream&) = delete;
  OwnCudaStream& operator=(const OwnCudaStream&) = delete;

  c10::Stream get() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaact
