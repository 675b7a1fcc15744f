#pragma once

#include <memory>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

namespace adaact {

/// While this lives, this thread's work on a GPU goes to a stream of its own: graphs cannot be captured on
/// the default one, and all threads share it. It goes before what layers make aside. Work from before is done when it begins, its own when it
/// ends. On other devices it does nothing.
class OwnStream {
 public:
  explicit OwnStream(torch::Device device) {
    if (!device.is_cuda()) return;
    const c10::impl::VirtualGuardImpl streams(device.type());
    streams.getStream(device).synchronize();
    guard_ = std::make_unique<c10::StreamGuard>(
        streams.getStreamFromGlobalPool(device, /*isHighPriority=*/true));
  }
  ~OwnStream() {
    if (!guard_) return;
    try {
      guard_->current_stream().synchronize();
    } catch (...) {  // an error of the device is the next caller's to see
    }
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  std::unique_ptr<c10::StreamGuard> guard_;
};

}  // namespace adaact
