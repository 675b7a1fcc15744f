#pragma once

#include <memory>
#include <vector>

#include <adaact/models/registry.h>

namespace adaact::fuzz {

/// A model of a few numbers, for images of one grey pixel and two classes.
inline std::shared_ptr<Model> small_mlp(std::vector<std::int64_t> hidden = {2}) {
  ModelOptions options;
  options.classes = 2;
  options.channels = 1;
  options.image_size = 1;
  options.hidden = std::move(hidden);
  return make_model("mlp", options);
}

}  // namespace adaact::fuzz
