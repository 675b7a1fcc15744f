#pragma once

#include <string>

#include <adaact/train/run_config.h>

#include "report/page.h"

namespace adaact {

// How AdaAct was trained on ImageNet for the paper: batches of 2048 images, made of eight that a GPU can hold, in
// the manner of timm's "A2". To which size evaluation resizes is from timm's models; the
// filter is this project's, bilinear.

/// The recipe of ResNet-50 and ResNet-101.
RunConfig imagenet_resnet_recipe();
RunConfig imagenet_vit_recipe();

/// Makes of a recipe a run of minutes on two cores: 512 images of 64², three epochs, batches of 64 with the rates that
/// the linear scaling rule makes of the recipe's. What is done to images stays.
void shrink_imagenet_recipe(RunConfig& config);

/// A row for each setting.
Table imagenet_settings(const RunConfig& recipe);

}  // namespace adaact
