#include "experiments/page/titles.h"

#include <map>

namespace adaact {
namespace {

std::string title_in(const std::map<std::string, std::string>& titles, const std::string& name) {
  const auto found = titles.find(name);
  return found == titles.end() ? name : found->second;
}

}  // namespace

std::string optimizer_title(const std::string& optimizer) {
  return title_in({{"adaact", "AdaAct"},
                   {"sgd", "SGD"},
                   {"adam", "Adam"},
                   {"adamw", "AdamW"},
                   {"adan", "Adan"},
                   {"kfac", "KFAC"},
                   {"foof", "FOOF"},
                   {"lamb", "LAMB"},
                   {"sam", "SAM"}},
                  optimizer);
}

std::string model_title(const std::string& model) {
  return title_in({{"lenet5", "LeNet-5"},
                   {"resnet20", "ResNet-20"},
                   {"resnet32", "ResNet-32"},
                   {"resnet34", "ResNet-34"},
                   {"densenet121", "DenseNet-121"},
                   {"resnet50", "ResNet-50"},
                   {"resnet101", "ResNet-101"},
                   {"vit_small", "ViT-S"}},
                  model);
}

std::string dataset_title(const std::string& dataset) {
  return title_in({{"cifar10", "CIFAR-10"},
                   {"cifar100", "CIFAR-100"},
                   {"fashion-mnist", "Fashion-MNIST"},
                   {"mnist", "MNIST"}},
                  dataset);
}

}  // namespace adaact
