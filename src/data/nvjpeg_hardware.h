#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "data/nvjpeg_handles.h"
#include "data/nvjpeg_memory.h"
#include "data/nvjpeg_task.h"

namespace adaact {

/// A GPU's decoder for baseline JPEGs, which takes many at a time.
class NvjpegHardware {
 public:
  /// Nothing where the current GPU, or its driver, has none.
  static std::unique_ptr<NvjpegHardware> of_gpu(NvjpegMemory& memory);

  /// Begins to decode on this stream. `turn`, 0 or 1: what was begun with it before must have ended. Returns the places of
  /// those that it does not decode.
  std::vector<std::size_t> decode(const std::vector<NvjpegTask>& tasks, std::size_t turn,
                                  cudaStream_t stream);

 private:
  /// What belongs to a batch until it is decoded.
  struct Turn {
    NvjpegState state;
    std::vector<NvjpegParameters> owned_parameters;
    std::vector<nvjpegDecodeParams_t> parameters;
    std::vector<const unsigned char*> bytes;
    std::vector<std::size_t> sizes;
    std::vector<nvjpegImage_t> to;
  };

  explicit NvjpegHardware(NvjpegLibrary library);
  bool add(Turn& turn, const NvjpegTask& task);
  bool knows(const NvjpegTask& task, nvjpegDecodeParams_t parameters);
  bool begin(Turn& turn, cudaStream_t stream);

  NvjpegLibrary library_;
  NvjpegFile file_;
  std::array<Turn, 2> turns_;
};

}  // namespace adaact
