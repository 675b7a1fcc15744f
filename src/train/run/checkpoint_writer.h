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

  /// Begins to write, once the checkpoint before this one is on the disk. Where that has failed this one is written all the
  /// same, and waited for, before what went wrong with that one is thrown.
  void begin(std::int64_t step, TensorFile checkpoint);
  /// Throws if what is under way has failed already, and waits for nothing.
  void check();
  /// Returns when everything is on the disk, or throws what went wrong. What was thrown once is not thrown again.
  void finish();

 private:
  const CheckpointStore& store_;
  std::future<void> under_way_;
};

}  // namespace adaact
