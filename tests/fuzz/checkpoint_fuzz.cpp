// A checkpoint, restored into a run of its kind.

#include <adaact/data/loader.h>
#include <adaact/data/synthetic.h>
#include <adaact/optim/registry.h>
#include <adaact/train/trainer.h>
#include <torch/torch.h>

#include "fuzz/fuzz_targets.h"
#include "fuzz/small_mlp.h"
#include "fuzz/tensor_file_mutator.h"
#include "train/run/checkpoint.h"

namespace adaact::fuzz {
namespace {

LoaderOptions without_threads() {
  auto options = LoaderOptions::evaluation();
  options.workers = 0;
  return options;
}

/// A model and an optimizer after a step.
class SteppedRun {
 public:
  SteppedRun() : optimizer_(make_optimizer("adaact", *model_)) {
    torch::manual_seed(0);
    model_->forward(torch::ones({2, 1, 1, 1})).sum().backward();
    optimizer_->step();
    state_.trainer.step = 5;
    state_.trainer.epoch = 1;
    state_.trainer.batch = 2;
    state_.trainer.seconds = 1.5;
    state_.trainer.epoch_seconds = 0.5;
    state_.trainer.loss_sum = 2.5;
    state_.trainer.correct = 3;
    state_.trainer.images = 4;
    state_.trainer.second_moments = {{"fc1.weight", 0.5}, {"fc2.weight", 0.25}};
    state_.trainer.activation_totals = {1.0, 2.0};
    state_.journal = {1000, 2000};
    state_.data = "12 images";
    first_bytes_ = bytes();
  }

  const std::string& first_bytes() const { return first_bytes_; }

  /// Either all of a checkpoint is taken over, or nothing.
  void restore(const TensorFile& checkpoint) {
    RunState restored;
    try {
      restored = read_run_state(checkpoint, kInputName);
      restore_checkpoint(checkpoint, *model_, *optimizer_, kInputName);
    } catch (...) {
      require(bytes() == first_bytes_, "a checkpoint that was refused has changed the run");
      throw;
    }
    const auto& stood = restored.trainer;
    require(!trainer_.problem_with(stood).empty() ||
                (stood.step >= 0 && stood.epoch >= 0 && stood.batch >= 0 && stood.correct >= 0 &&
                 stood.images >= 0),
            "a checkpoint with a negative count is taken for one");
    require(restored.journal.metrics_bytes >= 0 && restored.journal.event_bytes >= 0,
            "a checkpoint with a journal of negative length is taken for one");
    make_checkpoint(restored, *model_, *optimizer_, ModelCard()).to_bytes();
    go_back();
  }

 private:
  std::string bytes() const {
    return make_checkpoint(state_, *model_, *optimizer_, ModelCard()).to_bytes();
  }

  void go_back() {
    restore_checkpoint(
        TensorFile::from_bytes(first_bytes_, TensorFile::Checksum::Required, "first"), *model_,
        *optimizer_, "first");
  }

  std::shared_ptr<Model> model_ = small_mlp();
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  Loader data_{make_synthetic({4, 2, {1, 1, 1}}), without_threads()};
  Trainer trainer_{*model_, *optimizer_, data_, data_, {}};
  RunState state_;
  std::string first_bytes_;
};

SteppedRun& stepped_run() {
  static SteppedRun run;
  return run;
}

void read_checkpoint(const std::string& bytes) {
  stepped_run().restore(TensorFile::from_bytes(bytes, TensorFile::Checksum::Required, kInputName));
}

std::vector<Seed> checkpoint_seeds() { return {{"adaact", stepped_run().first_bytes()}}; }

}  // namespace

FuzzTarget checkpoint_target() {
  return {"checkpoint", read_checkpoint, checkpoint_seeds, mutate_tensor_file};
}

}  // namespace adaact::fuzz
