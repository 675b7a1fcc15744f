#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <adaact/data/dataset.h>
#include <adaact/ranks/communicator.h>

namespace adaact {

struct DatasetOptions {
  /// Empty: data/<name> in the working directory, or where Debian puts the data if it ships them.
  std::filesystem::path data_dir;
  Split split = Split::Train;
  /// At most so many samples, 0 for all: the first ones of a file, evenly spaced ones of a folder,
  /// whose order is by class. For synthetic data this is the size.
  std::int64_t limit = 0;
  /// Side of the images; 0 for the data set's own (image-folder: 224, synthetic: 32).
  std::int64_t image_size = 0;
  /// image-folder: the shorter side before the centre crop to image_size; 0 for image_size.
  std::int64_t resize_size = 0;
  /// image-folder: leave out images that cannot be decoded, with a warning for each.
  bool skip_bad_images = false;
  /// image-folder: the share of each class to evaluate on, where there is no folder for that; 0: there is.
  double validation = 0.0;
  /// Seed of synthetic data, and of what `validation` splits off.
  std::uint64_t seed = 0;
  /// image-folder: who opens the data set together, each of them with the same options, and shares the work of
  /// skip_bad_images.
  std::shared_ptr<Communicator> ranks = single_process();
};

/// A data set by name: cifar10, cifar100, fashion-mnist, image-folder, mnist, synthetic.
/// Errors name the file and the byte or record.
std::shared_ptr<Dataset> open_dataset(const std::string& name, const DatasetOptions& options);

std::vector<std::string> dataset_names();

/// The data set that the files in a folder are, as far as they tell: cifar10, cifar100, fashion-mnist (whose
/// files have the names of MNIST's) or image-folder; empty where they are none.
std::string dataset_in(const std::filesystem::path& folder);

/// Whether a mirrored image is one of the same class. Digits are not.
bool may_be_mirrored(const std::string& name);
/// The same question for classes of a user's own: images of classes that are all named by a letter or a digit
/// may not be mirrored.
bool may_be_mirrored(const std::vector<std::string>& class_names);

/// Where a data set is if nothing is said; empty where it is not there.
std::filesystem::path usual_data_dir(const std::string& name);

/// Data sets that open without a data_dir, and where they are.
std::vector<std::pair<std::string, std::filesystem::path>> datasets_found();

}  // namespace adaact
