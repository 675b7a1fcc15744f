#include "train/run/run_parts.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <adaact/data/datasets.h>
#include <adaact/data/device_batches.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>
#include <torch/torch.h>

#include "io/checksum.h"
#include "kernels/bf16_on_cpu.h"
#include "layers/patches.h"
#include "train/run/check_config.h"
#include "train/run/rand_augment_text.h"

namespace adaact {
namespace {

/// What is done to training images.
AugmentOptions augment_options(const RunConfig& config) {
  const bool is_open = config.crop == "auto" && config.augment;
  auto options = is_open || config.crop == "padded" ? AugmentOptions::training() : AugmentOptions();
  const bool flips = config.augment && config.flip != "off";
  options.flip_probability = flips ? AugmentOptions::training().flip_probability : 0.0;
  if (config.crop == "resized") {
    options.resized_crop.emplace();
    options.resized_crop->smallest = config.crop_scale.at(0);
    options.resized_crop->largest = config.crop_scale.at(1);
  }
  if (!config.rand_augment.empty()) {
    options.rand_augment = parse_rand_augment(config.rand_augment);
  }
  options.erase_probability = config.erase;
  return options;
}

/// Where warm-up begins, as a share of the learning rate.
double warmup_start(const RunConfig& config) {
  constexpr double kUsual = 0.1;
  const auto rate = learning_rate_of(config);
  const bool is_share = std::isfinite(config.warmup_lr) && rate > 0.0;  // of 0 any share is 0
  return is_share ? config.warmup_lr / rate : kUsual;
}

/// Where the cosine ends, as a share of the learning rate.
double cosine_end(const RunConfig& config) {
  return config.min_lr > 0.0 ? config.min_lr / learning_rate_of(config) : config.final_lr_factor;
}

RankOf place_among(const Communicator& ranks) { return {ranks.rank(), ranks.size()}; }

LoaderOptions training_loader_options(const RunConfig& config, std::int64_t workers,
                                      const Communicator& ranks, const std::string& image_work) {
  auto options = loader_options(config, workers, Split::Train, place_among(ranks));
  share_image_work(options, config, image_work);
  return options;
}

}  // namespace

void set_up_libtorch(const RunConfig& config) {
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  torch::manual_seed(config.seed);
  if (config.device == "cpu") {
    const auto& note = note_on_bf16_products();
    if (config.precision == "bf16" && !note.empty()) {
      TORCH_WARN_ONCE(note);
    }
    return;
  }
  auto& context = at::globalContext();
  const bool tf32 = config.precision == "tf32";
  context.setAllowTF32CuBLAS(tf32);
  context.setAllowTF32CuDNN(tf32);  // LibTorch's default would be true
  context.setDeterministicCuDNN(config.deterministic);
  context.setBenchmarkCuDNN(!config.deterministic);  // it measures, and may choose differently
}

void lay_out_channels_last(torch::nn::Module& model) {
  const auto last = torch::MemoryFormat::ChannelsLast;
  for (const auto& module : model.modules()) {
    const auto* convolution = module->as<torch::nn::Conv2dImpl>();
    if (convolution != nullptr && cuts_into_patches(*convolution)) continue;  // is a product
    for (auto& parameter : module->parameters(/*recurse=*/false)) {
      if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(last));
    }
  }
}

LoaderOptions loader_options(const RunConfig& config, std::int64_t workers, Split split,
                             const RankOf& rank) {
  auto options = LoaderOptions::evaluation();
  if (split == Split::Train) {
    options.shuffle = true;
    options.augment = augment_options(config);
    options.mix = {config.mixup, config.cutmix};
  }
  options.batch_size = config.batch_size;
  options.workers = workers;
  // Enough for all workers to be busy and for a step's batches to be ready when it begins.
  options.prefetch = std::max({options.prefetch, 2 * workers, config.accumulation + 2});
  options.seed = config.seed;
  options.pin_memory = torch::Device(config.device).is_cuda();
  options.part = rank.rank;
  options.parts = rank.ranks;
  return options;
}

void share_image_work(LoaderOptions& options, const RunConfig& config,
                      const std::string& image_work) {
  const torch::Device device(config.device);
  if (!device.is_cuda() || image_work == "cpu" || DeviceBatches::knows(options)) return;
  options.device = device;
  options.decode_at_once = image_work == "nvjpeg";
  if (config.precision == "bf16") options.dtype = torch::kBFloat16;
  if (config.memory_format == "channels-last") options.layout = ImageLayout::ChannelsLast;
}

std::shared_ptr<Dataset> open_split(const RunConfig& config, Split split,
                                    const std::shared_ptr<Communicator>& ranks) {
  DatasetOptions options;
  options.data_dir = config.data_dir;
  options.split = split;
  options.limit = split == Split::Train ? config.limit_train : config.limit_test;
  options.image_size = config.image_size;
  options.resize_size = config.resize_size;
  options.skip_bad_images = config.skip_bad_images;
  options.validation = config.validation;
  options.seed = config.seed;
  options.ranks = ranks;
  return open_dataset(config.dataset, options);
}

std::string describe_data(const Dataset& data) {
  Crc64 checksum;
  for (const auto& name : data.class_names()) checksum.update(name + "\n");
  for (std::int64_t i = 0; i < data.size(); ++i) {
    checksum.update(std::to_string(data.label(i)) + "\n");
  }
  return std::to_string(data.size()) + " images of " + std::to_string(data.classes()) +
         " classes with checksum " + checksum.hex();
}

std::string describe_pixels(const Dataset& data) {
  constexpr std::int64_t kMostImages = 64;
  const auto images = std::min(data.size(), kMostImages);
  std::string pixels(static_cast<std::size_t>(data.shape().bytes()), '\0');
  Crc64 checksum;
  for (std::int64_t i = 0; i < images; ++i) {
    data.read(i * data.size() / images, reinterpret_cast<std::uint8_t*>(pixels.data()));
    checksum.update(pixels);
  }
  return std::to_string(images) + " images with checksum " + checksum.hex();
}

std::shared_ptr<Model> build_model(const RunConfig& config, const Dataset& data) {
  auto options = default_model_options(config.model);
  options.classes = data.classes();
  options.channels = data.shape().channels;
  options.image_size = data.shape().height;
  options.batchnorm = config.batchnorm;
  options.drop_path = config.drop_path;
  return make_model(config.model, options);
}

RunParts::RunParts(const RunConfig& config, std::int64_t workers,
                   const std::shared_ptr<Communicator>& ranks, const std::string& image_work)
    : train_data(open_split(config, Split::Train, ranks)),
      test_data(open_split(config, Split::Test, ranks)),
      train_loader(train_data, training_loader_options(config, workers, *ranks, image_work)),
      test_loader(test_data, loader_options(config, workers, Split::Test, place_among(*ranks))),
      model(build_model(config, *train_data)) {
  model->to(torch::Device(config.device));
  if (config.memory_format == "channels-last") lay_out_channels_last(*model);
  optimizer = make_optimizer(config.optimizer, *model, config.optimizer_options,
                             config.decay_vectors ? DecayRule::Everything : DecayRule::NoVectors);
}

std::string RunParts::data_description() const {
  return "train " + describe_data(*train_data) + ", test " + describe_data(*test_data);
}

std::string RunParts::pixels_description() const {
  return "train " + describe_pixels(*train_data) + ", test " + describe_pixels(*test_data);
}

TrainerOptions step_options(const RunConfig& config) {
  TrainerOptions options;
  options.accumulation = config.accumulation;
  options.clip_norm = config.clip_norm;
  options.loss = config.loss == "bce" ? Loss::BinaryCrossEntropy : Loss::CrossEntropy;
  options.label_smoothing = config.label_smoothing;
  options.ema_decay = config.ema;
  options.bf16 = config.precision == "bf16";
  options.device = torch::Device(config.device);
  options.channels_last = config.memory_format == "channels-last";
  options.sync_batchnorm = config.sync_batchnorm;
  return options;
}

Schedule build_schedule(const RunConfig& config, std::int64_t steps_per_epoch) {
  const bool per_step = config.schedule == "cosine-per-step";
  const auto unit = per_step ? steps_per_epoch : 1;  // of time, in epochs or in steps
  const auto warmup = config.warmup_epochs * unit;
  auto schedule = constant_schedule();
  if (config.schedule == "step") schedule = step_schedule(config.milestones.at(0));
  if (config.schedule == "multistep") schedule = multistep_schedule(config.milestones);
  if (config.schedule == "cosine" || per_step) {
    schedule = cosine_schedule(config.epochs * unit, cosine_end(config));
  }
  if (warmup > 0) {
    schedule = with_warmup(warmup, warmup_start(config),
                           [schedule, warmup](std::int64_t t) { return schedule(warmup + t); });
  }
  return per_step ? schedule : per_epoch(schedule, steps_per_epoch);
}

}  // namespace adaact
