#pragma once

#include <cstdint>
#include <future>

#include <adaact/io/safetensors.h>

#include "train/run/checkpoint_store.h"

namespace adaact {

/// Writes checkpoints while training goes on: it waits for a copy of the tensors, and not for the disk.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(const CheckpointStore& store) : store_(store) {}
  /// Waits, because what is under way is still wanted where training failed. What goes wrong is then a warning.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Begins to write, once the checkpoint before this one is on the disk. Throws what went wrong with that one.
  void begin(std::int64_t step, TensorFile checkpoint);
  /// Returns when everything is on the disk, or throws what went wrong.
  void finish();

 private:
  const CheckpointStore& store_;
  std::future<void> under_way_;
};

}  // namespace adaact
