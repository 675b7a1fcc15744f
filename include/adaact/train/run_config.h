#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace adaact {

/// Stands for a number that RunConfig::resolve() chooses to fit the data. No number that anybody would type,
/// so that a wrong one is an error.
inline constexpr std::int64_t kToFit = std::numeric_limits<std::int64_t>::min();

/// Everything that decides what a training run computes. Two runs with equal configurations give
/// equal weights.
struct RunConfig {
  std::string model = "auto";  // that of `weights`, or one that fits the data
  bool batchnorm = true;
  double drop_path = 0.0;
  std::string weights;  // safetensors to begin with; empty: a fresh initialisation

  std::string dataset = "auto";  // what data_dir holds; without one, fashion-mnist
  std::string data_dir;          // empty: data/<dataset>, or where Debian puts the data
  std::int64_t image_size = 0;   // 0: the data set's own; of an image folder, to fit the model
  std::int64_t resize_size = 0;  // of an image folder, before the centre crop; 0: image_size
  std::int64_t limit_train = 0;  // 0: all
  std::int64_t limit_test = 0;
  bool augment = true;
  std::string flip = "auto";  // mirror images in training: on, off, or auto: not digits and letters
  /// In training: padded, a random part of the image with a black border; resized, a random part of the
  /// photograph, scaled; none; auto: padded where `augment` is on.
  std::string crop = "auto";
  std::vector<double>
      crop_scale;  // of resized: shares of the area, least and greatest; empty: 0.08, 1
  double crop_ratio =
      0.0;  // image_size / resize_size, in place of the latter; 0: it is given, or 1
  std::string rand_augment;  // "rand-m7-mstd0.5-inc1"; empty: none
  double erase = 0.0;        // probability that a rectangle of an image becomes noise
  double mixup = 0.0;        // MixOptions
  double cutmix = 0.0;
  bool skip_bad_images = false;
  /// Of an image folder with nothing to evaluate on: the share of each class's images that is split off.
  double validation = 0.0;

  std::string optimizer = "adaact";
  std::string optimizer_options = "{}";  // JSON; absent ones have their defaults
  bool decay_vectors = true;             // false: no_decay_groups()
  std::string schedule = "cosine";       // constant, step, multistep, cosine, cosine-per-step
  std::vector<std::int64_t> milestones;  // epochs: the period of step, the milestones of multistep
  double final_lr_factor = 0.0;          // of cosine: what is left of the learning rate at the end
  double min_lr = 0.0;                   // of cosine, in place of that factor: what it ends at
  std::int64_t warmup_epochs = 0;        // from `warmup_lr`
  double warmup_lr = std::numeric_limits<double>::infinity();  // or a tenth of the learning rate

  std::int64_t epochs = kToFit;
  std::int64_t batch_size = kToFit;
  std::int64_t accumulation = 1;  // batches a step
  bool sync_batchnorm = false;    // with several ranks: statistics of all their images
  double clip_norm = std::numeric_limits<double>::infinity();
  std::string loss = "cross-entropy";  // or bce, of a sigmoid for each class
  double label_smoothing = 0.0;
  double ema =
      0.0;  // decay of a moving average of the weights, which is the result; 0: there is none
  std::int64_t patience = 0;  // epochs without a better test top-1 that end the run; 0: none does

  std::string precision = "fp32";  // bf16: autocast; tf32: products of a GPU rounded to 10 bits
  std::string memory_format = "contiguous";  // or channels-last
  bool deterministic = false;                // on a GPU, where it costs time
  std::string device = "cpu";
  std::int64_t threads = 0;  // 0: one for each core
  std::uint64_t seed = 0;

  /// Checks every field, with a c10::ValueError that names it, its value and what was expected. Puts
  /// actual values in place of "auto", kToFit, "one for each core" and of optimizer options that were not
  /// given, because a default may change with the data, the machine and the version, and makes paths
  /// absolute.
  void resolve();

  std::string to_json() const;
  static RunConfig from_json(const std::string& text, const std::string& source);
  /// The config.json of a run. What it says of how the run is carried out is RunSettings' to read.
  static RunConfig read(const std::filesystem::path& config_file);
};

/// The device that is asked for or, where that is a GPU and LibTorch finds none, the CPU.
std::string available_device(const std::string& device);

/// Throws an error that says what to do where there is no such device.
void check_device(const std::string& device);

/// The most threads that resolve() allows on this machine: four for each core.
std::int64_t most_threads();

/// A field, or an option of the optimizer, that two configurations have different values of.
struct ConfigDifference {
  std::string field;
  bool of_optimizer = false;
  std::string here;  // as JSON
  std::string there;

  /// "epochs is 3, there it is 5"
  std::string text() const;
};

/// What differs, options of the optimizer one by one. data_dir is not compared: data may move.
std::vector<ConfigDifference> differences(const RunConfig& config, const RunConfig& there);

/// What differs and may not where a run that began as `there` goes on as `config`. What may: more epochs,
/// patience, device and threads, and on the CPU what only a GPU has.
std::vector<ConfigDifference> obstacles_to_going_on(const RunConfig& config,
                                                    const RunConfig& there);

}  // namespace adaact
