#include "data/nvjpeg_hardware.h"

#include <numeric>
#include <utility>

namespace adaact {

std::unique_ptr<NvjpegHardware> NvjpegHardware::of_gpu(NvjpegMemory& memory) {
  nvjpegHandle_t library = nullptr;
  const auto status = nvjpegCreateExV2(NVJPEG_BACKEND_HARDWARE, memory.on_gpu(), memory.on_host(),
                                       kNvjpegFlags, &library);
  if (status != NVJPEG_STATUS_SUCCESS) return nullptr;
  return std::unique_ptr<NvjpegHardware>(new NvjpegHardware(NvjpegLibrary(library)));
}

NvjpegHardware::NvjpegHardware(NvjpegLibrary library)
    : library_(std::move(library)),
      file_(made_by_nvjpeg<NvjpegFile>("nvjpegJpegStreamCreate", nvjpegJpegStreamCreate,
                                       library_.get())) {
  for (auto& turn : turns_) {
    turn.state =
        made_by_nvjpeg<NvjpegState>("nvjpegJpegStateCreate", nvjpegJpegStateCreate, library_.get());
  }
}

std::vector<std::size_t> NvjpegHardware::decode(const std::vector<NvjpegTask>& tasks,
                                                std::size_t turn, cudaStream_t stream) {
  auto& batch = turns_.at(turn);
  batch.parameters.clear();
  batch.bytes.clear();
  batch.sizes.clear();
  batch.to.clear();
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!add(batch, tasks[i])) left.push_back(i);
  }
  if (batch.bytes.empty() || begin(batch, stream)) return left;
  // It does not say which one was at fault.
  left.resize(tasks.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  return left;
}

bool NvjpegHardware::add(Turn& turn, const NvjpegTask& task) {
  const auto place = turn.bytes.size();
  if (place == turn.owned_parameters.size()) {
    turn.owned_parameters.push_back(rgb_parameters(library_.get()));
  }
  auto* parameters = turn.owned_parameters[place].get();
  if (!knows(task, parameters)) return false;
  turn.parameters.push_back(parameters);
  turn.bytes.push_back(task.bytes);
  turn.sizes.push_back(task.size);
  turn.to.push_back(task.to);
  return true;
}

bool NvjpegHardware::knows(const NvjpegTask& task, nvjpegDecodeParams_t parameters) {
  if (task.progressive) return false;
  if (!goes_well(set_region(parameters, task), "nvjpegDecodeParamsSetROI")) return false;
  if (!goes_well(nvjpegJpegStreamParseHeader(library_.get(), task.bytes, task.size, file_.get()),
                 "nvjpegJpegStreamParseHeader")) {
    return false;
  }
  int answer = 1;  // 0 means yes
  const auto status =
      nvjpegDecodeBatchedSupportedEx(library_.get(), file_.get(), parameters, &answer);
  return goes_well(status, "nvjpegDecodeBatchedSupportedEx") && answer == 0;
}

bool NvjpegHardware::begin(Turn& turn, cudaStream_t stream) {
  constexpr int kThreads = 1;  // the library no longer looks at it
  const auto size = static_cast<int>(turn.bytes.size());
  return goes_well(nvjpegDecodeBatchedInitialize(library_.get(), turn.state.get(), size, kThreads,
                                                 NVJPEG_OUTPUT_RGBI),
                   "nvjpegDecodeBatchedInitialize") &&
         goes_well(nvjpegDecodeBatchedEx(library_.get(), turn.state.get(), turn.bytes.data(),
                                         turn.sizes.data(), turn.to.data(), turn.parameters.data(),
                                         stream),
                   "nvjpegDecodeBatchedEx");
}

}  // namespace adaact
