#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/ranks/communicator.h>
#include <adaact/train/run_config.h>
#include <adaact/train/trainer.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// Sets threads, seed and how a GPU multiplies. To be called before all else: whatever is made next may run
/// in parallel and draw random numbers.
void set_up_libtorch(const RunConfig& config);

/// Whose part of each batch a loader prepares.
struct RankOf {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
};

LoaderOptions loader_options(const RunConfig& config, std::int64_t workers, Split split,
                             const RankOf& rank = {});

/// Gives the work on images to a GPU as RunSettings::image_work says. Those that are only cropped and flipped
/// DeviceBatches makes.
void share_image_work(LoaderOptions& options, const RunConfig& config,
                      const std::string& image_work);

/// `ranks` are those who open it at the same time.
std::shared_ptr<Dataset> open_split(const RunConfig& config, Split split,
                                    const std::shared_ptr<Communicator>& ranks = single_process());

/// Says in one line how many images of which classes there are: two data sets with the same line give
/// the same order of samples and labels.
std::string describe_data(const Dataset& data);

/// Says in one line what images look like, by reading a few that are spread evenly over all: data sets of the same names
/// and labels with other pictures have another line, unless they differ in none of these.
std::string describe_pixels(const Dataset& data);

/// The model that the configuration names, with the classes and the image size of the data.
std::shared_ptr<Model> build_model(const RunConfig& config, const Dataset& data);

/// Puts the weights of convolutions in the order in which a GPU's matrix units read them.
void lay_out_channels_last(torch::nn::Module& model);

/// What a configuration names, made. Draws the random numbers of the initialisation.
struct RunParts {
  RunParts(const RunConfig& config, std::int64_t workers,
           const std::shared_ptr<Communicator>& ranks = single_process(),
           const std::string& image_work = "cpu");

  std::string data_description() const;
  std::string pixels_description() const;

  std::shared_ptr<Dataset> train_data;
  std::shared_ptr<Dataset> test_data;
  Loader train_loader;
  Loader test_loader;
  std::shared_ptr<Model> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// What a configuration says of single steps: batches, precision, the loss. Epochs and schedule are not
/// among it.
TrainerOptions step_options(const RunConfig& config);

/// The factor of the learning rate, in steps. The cosine runs over all epochs; warm-up takes the place of its first.
Schedule build_schedule(const RunConfig& config, std::int64_t steps_per_epoch);

}  // namespace adaact
