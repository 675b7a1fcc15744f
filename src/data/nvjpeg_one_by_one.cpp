#include "data/nvjpeg_one_by_one.h"

#include <cstdint>
#include <utility>

namespace adaact {

NvjpegOneByOne::NvjpegOneByOne(NvjpegMemory& memory)
    : library_(made_by_nvjpeg<NvjpegLibrary>("nvjpegCreateExV2", nvjpegCreateExV2,
                                             NVJPEG_BACKEND_DEFAULT, memory.on_gpu(),
                                             memory.on_host(), kNvjpegFlags)),
      parameters_(rgb_parameters(library_.get())),
      on_gpu_(made_by_nvjpeg<NvjpegDeviceBuffer>("nvjpegBufferDeviceCreateV2",
                                                 nvjpegBufferDeviceCreateV2, library_.get(),
                                                 memory.on_gpu())),
      codes_on_host_(backend(NVJPEG_BACKEND_HYBRID)),
      codes_on_gpu_(backend(NVJPEG_BACKEND_GPU_HYBRID)) {
  for (auto& prepared : prepared_) {
    prepared.file = made_by_nvjpeg<NvjpegFile>("nvjpegJpegStreamCreate", nvjpegJpegStreamCreate,
                                               library_.get());
    prepared.buffer = made_by_nvjpeg<NvjpegPinnedBuffer>(
        "nvjpegBufferPinnedCreateV2", nvjpegBufferPinnedCreateV2, library_.get(), memory.on_host());
  }
}

NvjpegOneByOne::Backend NvjpegOneByOne::backend(nvjpegBackend_t kind) const {
  auto decoder = made_by_nvjpeg<NvjpegDecoder>("nvjpegDecoderCreate", nvjpegDecoderCreate,
                                               library_.get(), kind);
  auto state = made_by_nvjpeg<NvjpegState>("nvjpegDecoderStateCreate", nvjpegDecoderStateCreate,
                                           library_.get(), decoder.get());
  return {std::move(decoder), std::move(state)};
}

bool NvjpegOneByOne::decode(const NvjpegTask& task, c10::cuda::CUDAStream stream) {
  auto& prepared = prepared_[next_];
  next_ = 1 - next_;
  if (!goes_well(set_region(parameters_.get(), task), "nvjpegDecodeParamsSetROI")) return false;
  if (!goes_well(nvjpegJpegStreamParse(library_.get(), task.bytes, task.size, /*save_metadata=*/0,
                                       /*save_stream=*/0, prepared.file.get()),
                 "nvjpegJpegStreamParse")) {
    return false;
  }
  auto& by = backend_for(task, prepared);
  if (!prepare(by, prepared)) return false;
  // The buffer on the GPU is that of the picture before, and so may the state be.
  done_.synchronize();
  check_nvjpeg(nvjpegStateAttachDeviceBuffer(by.state.get(), on_gpu_.get()),
               "nvjpegStateAttachDeviceBuffer");
  auto to = task.to;
  const bool begun =
      goes_well(nvjpegDecodeJpegTransferToDevice(library_.get(), by.decoder.get(), by.state.get(),
                                                 prepared.file.get(), stream),
                "nvjpegDecodeJpegTransferToDevice") &&
      goes_well(
          nvjpegDecodeJpegDevice(library_.get(), by.decoder.get(), by.state.get(), &to, stream),
          "nvjpegDecodeJpegDevice");
  done_.record(stream);
  return begun;
}

/// Huffman codes of a large picture are decoded faster on the GPU, those of progressive ones on the host alone.
NvjpegOneByOne::Backend& NvjpegOneByOne::backend_for(const NvjpegTask& task,
                                                     const Prepared& prepared) {
  constexpr std::int64_t kManyPixels = 1000000;
  if (task.progressive || task.pixels < kManyPixels) return codes_on_host_;
  int answer = 1;  // 0 means yes
  const auto status = nvjpegDecoderJpegSupported(codes_on_gpu_.decoder.get(), prepared.file.get(),
                                                 parameters_.get(), &answer);
  const bool on_gpu = goes_well(status, "nvjpegDecoderJpegSupported") && answer == 0;
  return on_gpu ? codes_on_gpu_ : codes_on_host_;
}

bool NvjpegOneByOne::prepare(Backend& backend, Prepared& prepared) {
  check_nvjpeg(nvjpegStateAttachPinnedBuffer(backend.state.get(), prepared.buffer.get()),
               "nvjpegStateAttachPinnedBuffer");
  return goes_well(nvjpegDecodeJpegHost(library_.get(), backend.decoder.get(), backend.state.get(),
                                        parameters_.get(), prepared.file.get()),
                   "nvjpegDecodeJpegHost");
}

}  // namespace adaact
