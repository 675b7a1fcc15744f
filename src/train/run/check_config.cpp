#include "train/run/check_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <adaact/data/datasets.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>
#include <adaact/train/model_card.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "io/near_miss.h"
#include "io/utf8.h"
#include "train/run/rand_augment_text.h"

namespace adaact {
namespace {

constexpr std::int64_t kMany = std::numeric_limits<std::uint32_t>::max();

void between(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  TORCH_CHECK_VALUE(value >= low && value <= high, name, " is ", value, ", expected ", low, " to ",
                    high);
}

void between(const char* name, double value, double low, double high) {
  TORCH_CHECK_VALUE(value >= low && value <= high, name, " is ", value, ", expected ", low, " to ",
                    high);
}

void in_unit_interval(const char* name, double value) {
  TORCH_CHECK_VALUE(value >= 0.0 && value < 1.0, name, " is ", value, ", expected [0, 1)");
}

void one_of(const char* name, const std::string& value, const std::vector<std::string>& known) {
  std::string list;
  for (const auto& each : known) {
    if (each == value) return;
    list += (list.empty() ? "" : ", ") + each;
  }
  TORCH_CHECK_VALUE(false, name, " is '", value, "', expected one of: ", list,
                    did_you_mean(value, known));
}

/// An option that changes nothing is a mistake of whoever gave it.
void only_with(bool given, const char* name, bool useful, const std::string& what) {
  TORCH_CHECK_VALUE(!given || useful, name, " is of use only with ", what);
}

/// A rate that nobody has given is infinity.
bool is_given(double rate) { return rate != std::numeric_limits<double>::infinity(); }

void check_path(const char* name, const std::string& path) {
  TORCH_CHECK_VALUE(is_utf8(path), name, " is '", path, "', expected UTF-8");
}

void check_model_and_data(const RunConfig& config) {
  one_of("model", config.model, model_names());
  in_unit_interval("drop_path", config.drop_path);
  check_path("weights", config.weights);
  one_of("dataset", config.dataset, dataset_names());
  check_path("data_dir", config.data_dir);
  only_with(!config.data_dir.empty(), "data_dir", config.dataset != "synthetic",
            "a data set that has files");
  between("image_size", config.image_size, 0, kLargestImageSize);
  between("resize_size", config.resize_size, 0, kLargestResizeSize);
  between("limit_train", config.limit_train, 0, kMany);
  between("limit_test", config.limit_test, 0, kMany);
  const bool folder = config.dataset == "image-folder";
  only_with(config.resize_size != 0, "resize_size", folder, "the data set image-folder");
  only_with(config.skip_bad_images, "skip_bad_images", folder, "the data set image-folder");
  in_unit_interval("validation", config.validation);
  only_with(config.validation != 0.0, "validation", folder, "the data set image-folder");
}

void check_machine(const RunConfig& config) {
  between("batch_size", config.batch_size, 1, kMany);
  one_of("precision", config.precision, {"fp32", "tf32", "bf16"});
  one_of("memory_format", config.memory_format, {"contiguous", "channels-last"});
  check_device(config.device);
  const bool gpu = config.device != "cpu";
  TORCH_CHECK_VALUE(config.precision != "tf32" || gpu,
                    "precision is 'tf32', which is of use only with a GPU");
  only_with(config.deterministic, "deterministic", gpu, "a GPU");
  TORCH_CHECK_VALUE(config.threads >= 0 && config.threads <= most_threads(), "threads is ",
                    config.threads, ", expected 0 to ", most_threads(), ", four for each of the ",
                    most_threads() / 4, " cores of this machine");
}

void check_crop(const RunConfig& config) {
  one_of("crop", config.crop, {"resized", "padded", "none"});
  only_with(!config.crop_scale.empty(), "crop_scale", config.crop == "resized",
            "the crop 'resized'");
  const auto& scale = config.crop_scale;
  const bool is_range =
      scale.size() == 2 && scale[0] > 0.0 && scale[0] <= scale[1] && scale[1] <= 1.0;
  TORCH_CHECK_VALUE(scale.empty() || is_range, "crop_scale is ", c10::ArrayRef<double>(scale),
                    ", expected two shares of the area, the lesser first: 0.08, 1");
}

/// Of a Beta distribution, which with less than the least is that of a coin.
void check_alpha(const char* name, double alpha) {
  constexpr double kLeast = 1e-3;
  constexpr double kLargest = 1000.0;
  TORCH_CHECK_VALUE(alpha == 0.0 || (alpha >= kLeast && alpha <= kLargest), name, " is ", alpha,
                    ", expected 0 or ", kLeast, " to ", kLargest);
}

void check_augmentation(const RunConfig& config) {
  one_of("flip", config.flip, {"on", "off"});
  check_crop(config);
  const auto needs_augmentation = [&](bool given, const char* name) {
    only_with(given, name, config.augment, "augmentation, which is turned off");
  };
  needs_augmentation(config.crop != "none", "crop");
  needs_augmentation(!config.rand_augment.empty(), "rand_augment");
  needs_augmentation(config.erase != 0.0, "erase");
  needs_augmentation(config.mixup != 0.0, "mixup");
  needs_augmentation(config.cutmix != 0.0, "cutmix");
  if (!config.rand_augment.empty()) parse_rand_augment(config.rand_augment);
  between("erase", config.erase, 0.0, 1.0);
  check_alpha("mixup", config.mixup);
  check_alpha("cutmix", config.cutmix);
}

void check_training(const RunConfig& config) {
  one_of("optimizer", config.optimizer, optimizer_names());
  between("epochs", config.epochs, 1, 1'000'000);
  TORCH_CHECK_VALUE(config.warmup_epochs >= 0, "warmup_epochs is ", config.warmup_epochs,
                    ", expected 0 or more");
  TORCH_CHECK_VALUE(config.warmup_epochs < config.epochs, "warmup_epochs is ", config.warmup_epochs,
                    ", expected less than epochs, which is ", config.epochs);
  between("accumulation", config.accumulation, 1, 1'000'000);
  TORCH_CHECK_VALUE(config.clip_norm > 0.0, "clip_norm is ", config.clip_norm,
                    ", expected a number > 0");
  in_unit_interval("label_smoothing", config.label_smoothing);
  between("patience", config.patience, 0, 1'000'000);
  one_of("loss", config.loss, {"cross-entropy", "bce"});
  in_unit_interval("ema", config.ema);
}

void check_milestones(const RunConfig& config) {
  one_of("schedule", config.schedule,
         {"constant", "step", "multistep", "cosine", "cosine-per-step"});
  TORCH_CHECK_VALUE(config.schedule != "step" || config.milestones.size() == 1, "milestones are ",
                    c10::IntArrayRef(config.milestones),
                    ", expected the one period that schedule 'step' needs");
  TORCH_CHECK_VALUE(config.schedule != "multistep" || !config.milestones.empty(),
                    "milestones are empty, expected those that schedule 'multistep' needs");
  only_with(!config.milestones.empty(), "milestones",
            config.schedule == "step" || config.schedule == "multistep",
            "the schedules step and multistep");
  for (const auto milestone : config.milestones) {
    TORCH_CHECK_VALUE(milestone >= 1 && milestone <= config.epochs, "milestones is ", milestone,
                      ", expected at least 1 and no more than epochs, which is ", config.epochs);
  }
  const auto& milestones = config.milestones;
  const auto not_ascending =
      std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>());
  TORCH_CHECK_VALUE(not_ascending == milestones.end(), "milestones are ",
                    c10::IntArrayRef(config.milestones), ", expected ascending ones");
}

void check_rate_options(const RunConfig& config) {
  const bool cosine = config.schedule.rfind("cosine", 0) == 0;
  TORCH_CHECK_VALUE(config.final_lr_factor >= 0.0 && config.final_lr_factor <= 1.0,
                    "final_lr_factor is ", config.final_lr_factor, ", expected [0, 1]");
  only_with(config.final_lr_factor != 0.0, "final_lr_factor", cosine, "the cosine schedules");
  only_with(config.min_lr != 0.0, "min_lr", cosine, "the cosine schedules");
  only_with(config.min_lr != 0.0, "min_lr", config.final_lr_factor == 0.0,
            "final_lr_factor 0: both say where the cosine ends");
  only_with(is_given(config.warmup_lr), "warmup_lr", config.warmup_epochs > 0, "warmup_epochs");
}

}  // namespace

double learning_rate_of(const RunConfig& config) {
  const auto options = complete_options(config.optimizer, config.optimizer_options);
  return parse_json<nlohmann::json>(options, "optimizer_options").at("lr").get<double>();
}

void check_config(const RunConfig& config) {
  check_model_and_data(config);
  check_augmentation(config);
  check_machine(config);
  check_training(config);
  check_milestones(config);
  check_rate_options(config);
}

void check_rates(const RunConfig& config) {
  const auto highest = learning_rate_of(config);
  const auto check = [&](const char* name, double rate) {
    TORCH_CHECK_VALUE(rate >= 0.0 && rate <= highest, name, " is ", rate,
                      ", expected 0 to the learning rate, which is ", highest);
  };
  check("min_lr", config.min_lr);
  if (is_given(config.warmup_lr)) check("warmup_lr", config.warmup_lr);
}

}  // namespace adaact
