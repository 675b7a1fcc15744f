#include <adaact/models/registry.h>

#include <functional>
#include <map>
#include <utility>

#include <adaact/models/densenet.h>
#include <adaact/models/lenet5.h>
#include <adaact/models/mlp.h>
#include <adaact/models/resnet_cifar.h>
#include <adaact/models/resnet_imagenet.h>
#include <adaact/models/vit.h>

namespace adaact {
namespace {

constexpr int64_t kMostClasses = 1 << 20;
constexpr int64_t kMostChannels = 1 << 10;
constexpr int64_t kMostHidden = 1 << 20;  // neurons of a hidden layer

struct ImageSizes {
  std::function<bool(int64_t)> accept;
  std::string expected;
};

ImageSizes at_least(int64_t smallest) {
  return {[smallest](int64_t size) { return size >= smallest && size <= kLargestImageSize; },
          std::to_string(smallest) + " to " + std::to_string(kLargestImageSize)};
}

ImageSizes multiples_of(int64_t unit) {
  return {
      [unit](int64_t size) { return size > 0 && size <= kLargestImageSize && size % unit == 0; },
      "a multiple of " + std::to_string(unit) + " up to " + std::to_string(kLargestImageSize)};
}

ImageSizes either(int64_t one, int64_t other) {
  return {[one, other](int64_t size) { return size == one || size == other; },
          std::to_string(one) + " or " + std::to_string(other)};
}

struct Entry {
  ModelOptions defaults;
  ImageSizes image_sizes;
  std::function<std::shared_ptr<Model>(const ModelOptions&)> make;
  /// Parameters that there are whatever the options are, a little less than that.
  int64_t fixed_parameters;
  /// Parameters of weights whose size the classes and the image decide.
  std::function<int64_t(const ModelOptions&)> sized_by_options;
  bool any_channels = true;
  bool batchnorm_optional = false;
  bool takes_drop_path = false;
  bool takes_hidden = false;
};

/// The smallest images: the stages of a model, which halve an image three times or more, leave one
/// pixel of them.
constexpr int64_t kSmallestForCifarModels = 8;
constexpr int64_t kSmallestForImageNetResNets = 32;

/// The weights of a head that reads so many numbers.
std::function<int64_t(const ModelOptions&)> head_of(int64_t inputs) {
  return [inputs](const ModelOptions& given) { return inputs * given.classes; };
}

ModelOptions made_for(int64_t classes, int64_t channels, int64_t image_size) {
  ModelOptions options;
  options.classes = classes;
  options.channels = channels;
  options.image_size = image_size;
  return options;
}

Entry lenet5() {
  return {made_for(10, 3, 32), either(28, 32),
          [](const ModelOptions& given) {
            return std::make_shared<LeNet5>(given.channels, given.image_size, given.classes);
          },
          60'000, head_of(84)};
}

Entry mlp() {
  Entry entry{made_for(10, 1, 28), at_least(1),
              [](const ModelOptions& given) {
                return std::make_shared<Mlp>(given.channels, given.image_size, given.hidden,
                                             given.classes);
              },
              /*fixed_parameters=*/0,
              [](const ModelOptions& given) {
                int64_t sum = 0;
                auto inputs = given.channels * given.image_size * given.image_size;
                for (const auto size : given.hidden) sum += std::exchange(inputs, size) * size;
                return sum + inputs * given.classes;
              }};
  entry.defaults.hidden = {256, 128};
  entry.takes_hidden = true;
  return entry;
}

Entry resnet_cifar(const ResNetCifarOptions& architecture, int64_t fixed_parameters) {
  return {made_for(architecture.classes, 3, 32), at_least(kSmallestForCifarModels),
          [architecture](const ModelOptions& given) {
            auto options = architecture;
            options.channels = given.channels;
            options.classes = given.classes;
            options.batchnorm = given.batchnorm;
            return std::make_shared<ResNetCifar>(options);
          },
          fixed_parameters, head_of(architecture.widths.back())};
}

Entry resnet_with_optional_batchnorm(const ResNetCifarOptions& architecture,
                                     int64_t fixed_parameters) {
  auto entry = resnet_cifar(architecture, fixed_parameters);
  entry.batchnorm_optional = true;
  return entry;
}

Entry densenet121() {
  return {made_for(100, 3, 32), at_least(kSmallestForCifarModels),
          [](const ModelOptions& given) {
            DenseNetOptions options;
            options.channels = given.channels;
            options.classes = given.classes;
            return std::make_shared<DenseNet>(options);
          },
          6'800'000, head_of(1024)};
}

Entry resnet_imagenet(const ResNetImageNetOptions& architecture, int64_t fixed_parameters) {
  Entry entry{made_for(1000, 3, 224), at_least(kSmallestForImageNetResNets),
              [architecture](const ModelOptions& given) {
                auto options = architecture;
                options.classes = given.classes;
                options.drop_path = given.drop_path;
                return std::make_shared<ResNetImageNet>(options);
              },
              fixed_parameters, head_of(2048)};
  entry.any_channels = false;
  entry.takes_drop_path = true;
  return entry;
}

Entry vit_small() {
  Entry entry{made_for(1000, 3, 224), multiples_of(VisionTransformerOptions().patch_size),
              [](const ModelOptions& given) {
                VisionTransformerOptions options;
                options.image_size = given.image_size;
                options.classes = given.classes;
                options.drop_path = given.drop_path;
                return std::make_shared<VisionTransformer>(options);
              },
              21'000'000,
              [](const ModelOptions& given) {
                const VisionTransformerOptions options;
                const auto side = given.image_size / options.patch_size;
                return options.width * (1 + side * side + given.classes);
              }};
  entry.any_channels = false;
  entry.takes_drop_path = true;
  return entry;
}

const std::map<std::string, Entry>& entries() {
  static const std::map<std::string, Entry> all{
      {"lenet5", lenet5()},
      {"mlp", mlp()},
      {"resnet20", resnet_with_optional_batchnorm(resnet20_options(), 260'000)},
      {"resnet32", resnet_with_optional_batchnorm(resnet32_options(), 450'000)},
      {"resnet34", resnet_cifar(resnet34_options(), 21'000'000)},
      {"densenet121", densenet121()},
      {"resnet50", resnet_imagenet(resnet50_options(), 23'000'000)},
      {"resnet101", resnet_imagenet(resnet101_options(), 42'000'000)},
      {"vit_small", vit_small()},
  };
  return all;
}

/// The names of those models for which a flag of their entry is set, or of all.
std::string names_with(bool Entry::*flag = nullptr) {
  std::string names;
  for (const auto& [name, entry] : entries()) {
    if (flag == nullptr || entry.*flag) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

const Entry& find_entry(const std::string& name) {
  const auto found = entries().find(name);
  TORCH_CHECK_VALUE(found != entries().end(), "adaact: there is no model '", name,
                    "'; there are: ", names_with());
  return found->second;
}

void check_model_options(const std::string& name, const Entry& entry, const ModelOptions& given) {
  const auto label = "adaact: model '" + name + "': ";
  const auto check_between = [&](const char* what, int64_t value, int64_t most) {
    TORCH_CHECK_VALUE(value >= 1 && value <= most, label, what, " is ", value, ", expected 1 to ",
                      most);
  };
  check_between("classes", given.classes, kMostClasses);
  check_between("channels", given.channels, kMostChannels);
  TORCH_CHECK_VALUE(
      given.channels == 3 || entry.any_channels, label, "channels is ", given.channels,
      ", expected 3; models for any number of channels: ", names_with(&Entry::any_channels));
  TORCH_CHECK_VALUE(entry.image_sizes.accept(given.image_size), label, "image_size is ",
                    given.image_size, ", expected ", entry.image_sizes.expected);
  TORCH_CHECK_VALUE(given.batchnorm || entry.batchnorm_optional, label,
                    "batchnorm is false, expected true; models that can do without: ",
                    names_with(&Entry::batchnorm_optional));
  TORCH_CHECK_VALUE(given.drop_path >= 0.0 && given.drop_path < 1.0, label, "drop_path is ",
                    given.drop_path, ", expected from 0 to below 1");
  TORCH_CHECK_VALUE(given.drop_path == 0.0 || entry.takes_drop_path, label, "drop_path is ",
                    given.drop_path,
                    ", expected 0; models that have it: ", names_with(&Entry::takes_drop_path));
  const at::IntArrayRef hidden(given.hidden);
  TORCH_CHECK_VALUE(hidden.empty() || entry.takes_hidden, label, "hidden is ", hidden,
                    ", expected none; models that have hidden layers to choose: ",
                    names_with(&Entry::takes_hidden));
  for (const auto size : hidden) {
    TORCH_CHECK_VALUE(size >= 1 && size <= kMostHidden, label, "hidden is ", hidden,
                      ", expected sizes of 1 to ", kMostHidden);
  }
}

}  // namespace

std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options) {
  const auto& entry = find_entry(name);
  check_model_options(name, entry, options);
  return entry.make(options);
}

std::shared_ptr<Model> make_model(const std::string& name) {
  return make_model(name, default_model_options(name));
}

int64_t least_parameters(const std::string& name, const ModelOptions& options) {
  const auto& entry = find_entry(name);
  check_model_options(name, entry, options);
  return entry.fixed_parameters + entry.sized_by_options(options);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries()) names.push_back(name);
  return names;
}

ModelOptions default_model_options(const std::string& name) { return find_entry(name).defaults; }

}  // namespace adaact
