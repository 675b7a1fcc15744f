#pragma once

#include <cstdint>
#include <memory>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/run_config.h>
#include <adaact/train/trainer.h>
#include <torch/optim/optimizer.h>

namespace adaact {

std::shared_ptr<Dataset> open_split(const RunConfig& config, Split split);

/// With the classes and the image size of the data.
std::shared_ptr<Model> build_model(const RunConfig& config, const Dataset& data);

/// What a configuration names, made. The random numbers of the initialisation are drawn here, from
/// the run's seed.
struct RunParts {
  RunParts(const RunConfig& config, std::int64_t workers);

  std::shared_ptr<Dataset> train_data;
  std::shared_ptr<Dataset> test_data;
  Loader train_loader;
  Loader test_loader;
  std::shared_ptr<Model> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// Of the learning rate, in steps.
Schedule build_schedule(const RunConfig& config, std::int64_t steps_per_epoch);

}  // namespace adaact
