#pragma once

#include <string>

#include <adaact/io/safetensors.h>
#include <adaact/models/model.h>
#include <adaact/train/model_card.h>
#include <adaact/train/trainer.h>
#include <torch/optim/optimizer.h>

#include "train/run/run_journal.h"

namespace adaact {

/// Where a run stands: its training, how long its journal was, what its data were.
struct RunState {
  TrainerState trainer;
  JournalSize journal;
  std::string data;  // describe_data()
};

/// All that a run needs to go on: where it stands with the average of the weights, the model, the optimizer and LibTorch's
/// generator, from which dropout and drop-path draw. The card is for whoever wants the model alone.
TensorFile make_checkpoint(const RunState& state, const Model& model,
                           const torch::optim::Optimizer& optimizer, const ModelCard& card);

/// Where the run stood. An error names the field, its value and what was expected; whether a number fits the
/// run is Trainer::problem_with()'s to say.
RunState read_run_state(const TensorFile& checkpoint, const std::string& source);

/// Gives model, optimizer and generator what they had. Checks everything before it changes anything.
void restore_checkpoint(const TensorFile& checkpoint, Model& model,
                        torch::optim::Optimizer& optimizer, const std::string& source);

}  // namespace adaact
