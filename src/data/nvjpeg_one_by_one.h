#pragma once

#include <array>
#include <cstddef>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include "data/nvjpeg_handles.h"
#include "data/nvjpeg_memory.h"
#include "data/nvjpeg_task.h"

namespace adaact {

/// Decodes a picture by the host and the GPU together. The host prepares one while the GPU works on that before.
class NvjpegOneByOne {
 public:
  explicit NvjpegOneByOne(NvjpegMemory& memory);

  /// Waits for the picture before, on whatever stream it was. Returns whether the file could be decoded.
  bool decode(const NvjpegTask& task, c10::cuda::CUDAStream stream);

 private:
  struct Backend {
    NvjpegDecoder decoder;
    NvjpegState state;
  };
  /// What the host prepares.
  struct Prepared {
    NvjpegFile file;
    NvjpegPinnedBuffer buffer;
  };

  Backend backend(nvjpegBackend_t kind) const;
  Backend& backend_for(const NvjpegTask& task, const Prepared& prepared);
  bool prepare(Backend& backend, Prepared& prepared);

  NvjpegLibrary library_;
  NvjpegParameters parameters_;
  NvjpegDeviceBuffer on_gpu_;
  std::array<Prepared, 2> prepared_;
  std::size_t next_ = 0;
  Backend codes_on_host_;
  Backend codes_on_gpu_;
  at::cuda::CUDAEvent done_;
};

}  // namespace adaact
