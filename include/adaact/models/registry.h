#pragma once

#include <memory>
#include <string>
#include <vector>

#include <adaact/models/model.h>

namespace adaact {

/// The largest side of an image that a model is made for.
inline constexpr int64_t kLargestImageSize = 4096;

struct ModelOptions {
  int64_t classes = 10;
  int64_t channels = 3;
  int64_t image_size = 32;
  bool batchnorm = true;
  double drop_path = 0.0;
  std::vector<int64_t> hidden;  // sizes of the hidden layers of "mlp"
};

/// A model by name: densenet121, lenet5, mlp, resnet20, resnet32, resnet34 for small images,
/// resnet50, resnet101, vit_small for large ones.
///
///   auto options = adaact::default_model_options("resnet20");
///   options.batchnorm = false;
///   auto model = adaact::make_model("resnet20", options);
///
/// Unknown names and options that the model cannot follow are errors that say what there is.
std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options);

/// A model by name with the options of default_model_options().
std::shared_ptr<Model> make_model(const std::string& name);

/// How many parameters such a model has at least, and nearly how many: told without making it. Errors as
/// of make_model().
int64_t least_parameters(const std::string& name, const ModelOptions& options);

std::vector<std::string> model_names();

/// Options for the data that a model is known for: CIFAR-10, CIFAR-100, ImageNet, and for "mlp"
/// Fashion-MNIST.
ModelOptions default_model_options(const std::string& name);

}  // namespace adaact
