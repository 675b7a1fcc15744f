#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "data/own_cuda_stream.h"

namespace adaact {

class OwnCudaStream::Impl {
 public:
  explicit Impl(torch::Device device) {
    const c10::cuda::CUDAGuard guard(device);
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    index_ = c10::cuda::current_device();
  }
  ~Impl() { cudaStreamDestroy(stream_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  c10::Stream get() const {
    return c10::cuda::getStreamFromExternal(stream_, static_cast<c10::DeviceIndex>(index_))
        .unwrap();
  }

 private:
  cudaStream_t stream_ = nullptr;
  int index_ = 0;  // of the device, which may have been named without one
};

OwnCudaStream::OwnCudaStream(torch::Device device) : impl_(std::make_unique<Impl>(device)) {}
OwnCudaStream::~OwnCudaStream() = default;

c10::Stream OwnCudaStream::get() const { return impl_->get(); }

}  // namespace adaact
