#include "train/run/checkpoint_writer.h"

#include <chrono>
#include <exception>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/types.h>

#include "io/error_text.h"

namespace adaact {
namespace {

/// Training changes its own tensors in place. On a GPU this waits for the steps so far.
TensorFile copy_on_host(TensorFile file) {
  for (auto& [name, tensor] : file.tensors) {
    tensor = tensor.detach().to(tensor.options().device(torch::kCPU), /*non_blocking=*/false,
                                /*copy=*/true);
  }
  return file;
}

/// For after a failure: where this fails too, the first one is what is to be told.
void save_if_possible(const CheckpointStore& store, std::int64_t step,
                      const TensorFile& checkpoint) {
  try {
    store.save(step, checkpoint);
  } catch (const std::exception&) {
  }
}

}  // namespace

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    TORCH_WARN(error_text_within_line(error));
  }
}

void CheckpointWriter::begin(std::int64_t step, TensorFile checkpoint) {
  try {
    finish();
  } catch (const std::exception&) {
    save_if_possible(store_, step, copy_on_host(std::move(checkpoint)));
    throw;
  }
  // No sooner: copies of two checkpoints would take twice the memory.
  under_way_ = std::async(
      std::launch::async,
      [this, step, file = copy_on_host(std::move(checkpoint))] { store_.save(step, file); });
}

void CheckpointWriter::check() {
  if (!under_way_.valid()) return;
  if (under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void CheckpointWriter::finish() {
  if (under_way_.valid()) under_way_.get();
}

}  // namespace adaact
