#include "train/run/chosen_defaults.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <memory>

#include <adaact/data/augment.h>
#include <adaact/data/datasets.h>
#include <adaact/data/image_folder.h>
#include <adaact/io/safetensors.h>
#include <adaact/models/registry.h>
#include <adaact/train/model_card.h>
#include <c10/util/Exception.h>

namespace adaact {
namespace {

constexpr char kImageFolder[] = "image-folder";

std::string dataset_to_fit(const std::string& data_dir) {
  // Of a folder that is not there whoever opens it says so.
  if (!std::filesystem::is_directory(data_dir)) return "fashion-mnist";
  const auto there = dataset_in(data_dir);
  TORCH_CHECK_VALUE(!there.empty(), "data_dir is '", data_dir,
                    "', expected a folder of images for each class in it, or the files of dataset");
  return there;
}

/// What weights say of the model that they are for, if that is what is to be trained. A picture for it must
/// be prepared as before.
void take_from_weights(RunConfig& config) {
  const bool open =
      config.model == "auto" || (config.dataset == kImageFolder && config.image_size == 0);
  if (config.weights.empty() || !open) return;
  const auto metadata = TensorFile::read(config.weights).metadata;
  if (metadata.count("model") == 0) return;
  const auto card = ModelCard::from_metadata(metadata, config.weights);
  if (config.model == "auto") {
    config.model = card.model;
    config.batchnorm = config.batchnorm && card.batchnorm;
  }
  if (config.dataset != kImageFolder || config.image_size != 0 || config.model != card.model)
    return;
  config.image_size = card.data.shape.height;
  const bool says_size = config.resize_size != 0 || config.crop_ratio != 0.0;
  if (!says_size) config.resize_size = card.resize_size;
}

constexpr std::int64_t kSmallestForResNet20 = 8;
/// Up to here its full resolution in the first layers is worth what it costs.
constexpr std::int64_t kLargestForResNet20 = 128;

std::string model_to_fit(const RunConfig& config) {
  const auto size = config.image_size;
  const bool small = size == 0 || size == 28 || size == 32;
  if (config.dataset == kImageFolder || config.dataset == "synthetic") {
    if (config.dataset == "synthetic" && small) return "lenet5";
    if (size == 0) return "resnet20";
    if (size < kSmallestForResNet20) return "mlp";
    return size <= kLargestForResNet20 ? "resnet20" : "resnet50";
  }
  return config.dataset.rfind("cifar", 0) == 0 ? "resnet20" : "lenet5";
}

/// Of photographs: what the model was made for, or 64 where that is the size of CIFAR's, on which not even
/// a person sees much.
std::int64_t image_size_to_fit(const RunConfig& config) {
  constexpr std::int64_t kLarge = 224;
  constexpr std::int64_t kMiddle = 64;
  const auto known = model_names();
  if (std::find(known.begin(), known.end(), config.model) == known.end()) return 0;
  auto size = kMiddle;
  if (config.model == "lenet5") size = 32;
  if (default_model_options(config.model).image_size == kLarge) size = kLarge;
  return config.resize_size > 0 ? std::min(size, config.resize_size) : size;
}

/// The training images of a folder; none where it cannot be opened, and whoever opens it says why.
std::unique_ptr<ImageFolder> images_to_train_on(const RunConfig& config) {
  ImageFolderOptions options;
  options.root = config.data_dir.empty() ? usual_data_dir(kImageFolder)
                                         : std::filesystem::path(config.data_dir);
  options.image_size = 1;
  options.limit = config.limit_train;
  options.validation = config.validation;
  options.seed = config.seed;
  try {
    return std::make_unique<ImageFolder>(options);
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// A power of two by which an epoch has a dozen steps at least, so that few images are not few steps.
std::int64_t batch_size_to_fit(std::int64_t images) {
  constexpr std::int64_t kStepsOfAnEpoch = 12;
  std::int64_t size = 16;
  while (size < 128 && 2 * size * kStepsOfAnEpoch <= images) size *= 2;
  return size;
}

/// As many as make so many images in all, within reason: few images are seen often.
std::int64_t epochs_to_fit(std::int64_t images) {
  constexpr std::int64_t kImagesInAll = 12'000;
  return std::clamp<std::int64_t>(kImagesInAll / std::max<std::int64_t>(images, 1), 10, 60);
}

/// Numbers in the place of names do not make digits of the images.
std::string flip_to_fit(const ImageFolder& images) {
  return !images.has_class_names() || may_be_mirrored(images.class_names()) ? "on" : "off";
}

void fit_to_folder(RunConfig& config) {
  if (config.image_size == 0) config.image_size = image_size_to_fit(config);
  if (config.epochs != kToFit && config.batch_size != kToFit && config.flip != "auto") return;
  const auto images = images_to_train_on(config);
  if (images == nullptr) return;
  if (config.epochs == kToFit) config.epochs = epochs_to_fit(images->size());
  if (config.batch_size == kToFit) config.batch_size = batch_size_to_fit(images->size());
  if (config.flip == "auto") config.flip = flip_to_fit(*images);
}

/// Rounded down, as timm does: of 224 pixels and 0.95 are 235.
void take_crop_ratio(RunConfig& config) {
  const auto ratio = config.crop_ratio;
  if (ratio == 0.0) return;
  TORCH_CHECK_VALUE(config.dataset == kImageFolder,
                    "crop_ratio is of use only with the data set image-folder");
  TORCH_CHECK_VALUE(ratio > 0.0 && ratio <= 1.0, "crop_ratio is ", ratio, ", expected (0, 1]");
  constexpr double kRounding = 1e-6;  // of a quotient that would be whole
  const auto side = static_cast<double>(config.image_size) / ratio;
  const auto size = static_cast<std::int64_t>(
      std::min(std::floor(side + kRounding), static_cast<double>(kLargestResizeSize) + 1.0));
  TORCH_CHECK_VALUE(config.resize_size == 0 || config.resize_size == size, "resize_size is ",
                    config.resize_size, ", but crop_ratio ", ratio, " makes it ", size,
                    "; give one of the two");
  config.resize_size = size;
}

}  // namespace

void choose_defaults(RunConfig& config) {
  if (config.dataset == "auto") config.dataset = dataset_to_fit(config.data_dir);
  take_from_weights(config);
  if (config.model == "auto") config.model = model_to_fit(config);
  if (config.dataset == kImageFolder) fit_to_folder(config);
  take_crop_ratio(config);
  if (config.crop == "auto") config.crop = config.augment ? "padded" : "none";
  if (config.crop == "resized" && config.crop_scale.empty()) {
    const ResizedCropOptions usual;
    config.crop_scale = {usual.smallest, usual.largest};
  }
  if (config.epochs == kToFit) config.epochs = 3;
  if (config.batch_size == kToFit) config.batch_size = 128;
  if (config.flip == "auto") config.flip = may_be_mirrored(config.dataset) ? "on" : "off";
}

}  // namespace adaact
