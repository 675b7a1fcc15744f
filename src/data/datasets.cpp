#include <adaact/data/datasets.h>

#include <algorithm>
#include <functional>
#include <map>

#include <adaact/data/image_folder.h>
#include <adaact/data/record_datasets.h>
#include <adaact/data/synthetic.h>
#include <c10/util/Exception.h>

#include "data/data_source.h"
#include "data/encoded_images.h"

namespace adaact {
namespace {

constexpr char kDebiansFashionMnist[] = "/usr/share/datasets/fashion-mnist";

namespace fs = std::filesystem;
using Open = std::function<std::shared_ptr<Dataset>(const DatasetOptions&)>;

fs::path folder_of(const std::string& name, const DatasetOptions& options) {
  const auto folder = options.data_dir.empty() ? usual_data_dir(name) : options.data_dir;
  TORCH_CHECK(!folder.empty(), "adaact: the data set ", name,
              " is not here: there is no folder data/", name, "; ", how_to_get(name));
  TORCH_CHECK(fs::is_directory(folder), "adaact: there is no folder ", folder.string(), "; ",
              how_to_get(name));
  return folder;
}

void check_own_size(const DatasetInfo& info, const DatasetOptions& options) {
  TORCH_CHECK_VALUE(options.image_size == 0 || options.image_size == info.shape.height, info.name,
                    ": image_size is ", options.image_size, ", expected 0 or ", info.shape.height,
                    ", the size of its images");
}

Open mnist(const DatasetInfo& info) {
  return [=](const DatasetOptions& options) {
    check_own_size(info, options);
    return read_mnist(folder_of(info.name, options), options.split, options.limit, info);
  };
}

Open cifar(const DatasetInfo& info, CifarKind kind) {
  return [=](const DatasetOptions& options) {
    check_own_size(info, options);
    return read_cifar(folder_of(info.name, options), kind, options.split, options.limit, info);
  };
}

std::shared_ptr<Dataset> open_folder(const DatasetOptions& options) {
  ImageFolderOptions folder;
  folder.root = folder_of("image-folder", options);
  folder.split = options.split;
  if (options.image_size != 0) folder.image_size = options.image_size;
  folder.resize_size = options.resize_size;
  folder.limit = options.limit;
  folder.skip_bad_images = options.skip_bad_images;
  folder.validation = options.validation;
  folder.seed = options.seed;
  folder.ranks = options.ranks;
  return std::make_shared<ImageFolder>(folder);
}

/// Synthetic data, as many images as CIFAR-10 has unless the options say otherwise.
std::shared_ptr<Dataset> open_synthetic(const DatasetOptions& options) {
  SyntheticOptions synthetic;
  synthetic.size = options.split == Split::Train ? 50000 : 10000;
  if (options.limit != 0) synthetic.size = options.limit;
  if (options.image_size != 0) synthetic.shape = {3, options.image_size, options.image_size};
  synthetic.split = options.split;
  synthetic.seed = options.seed;
  return make_synthetic(synthetic);
}

// Normalisation: mean and standard deviation of all pixels of the training images.
const std::map<std::string, Open>& entries() {
  static const std::map<std::string, Open> all{
      {"fashion-mnist", mnist({"fashion-mnist",
                               {1, 28, 28},
                               {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal",
                                "Shirt", "Sneaker", "Bag", "Ankle boot"},
                               {{.2860F}, {.3530F}}})},
      {"mnist", mnist({"mnist",
                       {1, 28, 28},
                       {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                       {{.1307F}, {.3081F}}})},
      {"cifar10",
       cifar({"cifar10", {3, 32, 32}, {}, {{.4914F, .4822F, .4465F}, {.2470F, .2435F, .2616F}}},
             CifarKind::Cifar10)},
      {"cifar100",
       cifar({"cifar100", {3, 32, 32}, {}, {{.5071F, .4865F, .4409F}, {.2673F, .2564F, .2762F}}},
             CifarKind::Cifar100)},
      {"image-folder", open_folder},
      {"synthetic", open_synthetic},
  };
  return all;
}

}  // namespace

std::shared_ptr<Dataset> open_dataset(const std::string& name, const DatasetOptions& options) {
  const auto found = entries().find(name);
  std::string known;
  for (const auto& each : dataset_names()) known += (known.empty() ? "" : ", ") + each;
  TORCH_CHECK(found != entries().end(), "adaact: there is no data set '", name,
              "'; there are: ", known);
  TORCH_CHECK(options.limit >= 0, name, ": limit is ", options.limit, ", expected >= 0");
  TORCH_CHECK(options.image_size >= 0, name, ": image_size is ", options.image_size,
              ", expected >= 0");
  return found->second(options);
}

std::string dataset_in(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  if (has("train-images-idx3-ubyte.gz") || has("train-images-idx3-ubyte")) return "fashion-mnist";
  if (has("data_batch_1.bin") || has("cifar-10-batches-bin")) return "cifar10";
  if (has("train.bin") || has("cifar-100-binary")) return "cifar100";
  return fs::is_directory(folder) && has_classes(folder) ? "image-folder" : "";
}

bool may_be_mirrored(const std::string& name) { return name != "mnist"; }

bool may_be_mirrored(const std::vector<std::string>& class_names) {
  return !std::all_of(class_names.begin(), class_names.end(),
                      [](const auto& name) { return name.size() == 1; });
}

fs::path usual_data_dir(const std::string& name) {
  if (name == "synthetic") return {};
  const auto here = fs::path("data") / name;
  if (fs::is_directory(here)) return here;
  const bool packaged = name == "fashion-mnist" && fs::is_directory(kDebiansFashionMnist);
  return packaged ? kDebiansFashionMnist : fs::path();
}

std::vector<std::pair<std::string, fs::path>> datasets_found() {
  std::vector<std::pair<std::string, fs::path>> found;
  for (const auto& name : dataset_names()) {
    const auto folder = usual_data_dir(name);
    if (!folder.empty()) found.emplace_back(name, folder);
  }
  return found;
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const auto& [name, open] : entries()) names.push_back(name);
  return names;
}

}  // namespace adaact
