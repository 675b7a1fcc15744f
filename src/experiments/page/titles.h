#pragma once

#include <string>

namespace adaact {

// Names as the paper writes them. A name that it does not have stays as it is.

std::string optimizer_title(const std::string& optimizer);  // "AdaAct"
std::string model_title(const std::string& model);          // "ResNet-20"
std::string dataset_title(const std::string& dataset);      // "CIFAR-10"

}  // namespace adaact
