#include "data/own_cuda_stream.h"

#include <c10/util/Exception.h>

#include "kernels/without_cuda.h"

namespace adaact {

class OwnCudaStream::Impl {};

OwnCudaStream::OwnCudaStream(torch::Device /*device*/) { throw_without_cuda("a stream of a GPU"); }
OwnCudaStream::~OwnCudaStream() = default;

c10::Stream OwnCudaStream::get() const { throw_without_cuda("a stream of a GPU"); }

}  // namespace adaact
