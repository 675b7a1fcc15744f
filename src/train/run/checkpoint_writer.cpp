#include "train/run/checkpoint_writer.h"

#include <exception>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/types.h>

#include "io/error_text.h"

namespace adaact {

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    TORCH_WARN(error_text_within_line(error));
  }
}

void CheckpointWriter::begin(std::int64_t step, TensorFile checkpoint) {
  finish();
  for (auto& [name, tensor] : checkpoint.tensors) {
    // Training changes its own in place. On a GPU this waits for the steps so far.
    tensor = tensor.detach().to(tensor.options().device(torch::kCPU), /*non_blocking=*/false,
                                /*copy=*/true);
  }
  under_way_ = std::async(std::launch::async,
                          [this, step, file = std::move(checkpoint)] { store_.save(step, file); });
}

void CheckpointWriter::finish() {
  if (under_way_.valid()) under_way_.get();
}

}  // namespace adaact
