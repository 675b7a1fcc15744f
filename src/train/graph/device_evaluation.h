#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/metrics.h>

namespace adaact {

/// evaluate() with the data in the memory of a GPU and the passes in CUDA graphs. Only in builds with
/// CUDA. Works on the current stream.
class DeviceEvaluation {
 public:
  DeviceEvaluation(Model& model, const Loader& data, torch::Device device, bool bf16,
                   bool channels_last);
  ~DeviceEvaluation();
  DeviceEvaluation(const DeviceEvaluation&) = delete;
  DeviceEvaluation& operator=(const DeviceEvaluation&) = delete;

  /// Nothing if stopped.
  std::optional<Evaluation> run(const std::function<bool()>& should_stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaact
