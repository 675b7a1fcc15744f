#pragma once

#include <functional>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include "data/own_cuda_stream.h"

namespace adaact {

/// A stream of a GPU beside the current one, for work that does not depend on it.
class SideStream {
 public:
  explicit SideStream(torch::Device device)
      : device_(device), streams_(device.type()), own_(device), stream_(own_.get()) {}

  /// Enqueues work there, beside what is still to do on the current stream. What comes next on that one waits for it.
  torch::Tensor run(const std::function<torch::Tensor()>& work) const {
    const auto result = enqueue(work);
    c10::Event done(device_.type());
    done.record(stream_);
    const auto current = streams_.getStream(device_);
    done.block(current);
    result.record_stream(current);  // or its memory might be another's before it has been read
    return result;
  }

 private:
  torch::Tensor enqueue(const std::function<torch::Tensor()>& work) const {
    const c10::StreamGuard guard(stream_);
    return work();
  }

  const torch::Device device_;
  const c10::impl::VirtualGuardImpl streams_;
  const OwnCudaStream own_;
  const c10::Stream stream_;
};

}  // namespace adaact
