#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <adaact/data/dataset.h>
#include <adaact/models/model.h>
#include <adaact/models/registry.h>

namespace adaact {

/// The largest shorter side that a picture is scaled to before it is cropped.
inline constexpr std::int64_t kLargestResizeSize = 16384;

/// What a file of trained weights says about itself: enough to build the model and to prepare an image
/// for it. Kept as strings beside the tensors.
struct ModelCard {
  std::string model;
  bool batchnorm = true;
  DatasetInfo data;
  std::int64_t resize_size = 0;  // the shorter side of a picture before the centre crop

  std::map<std::string, std::string> to_metadata() const;
  /// An error that names `source` and the field where something is missing, or beyond what a command line
  /// would be allowed to say.
  static ModelCard from_metadata(const std::map<std::string, std::string>& metadata,
                                 const std::string& source);

  /// What make_model() takes beside the name.
  ModelOptions options() const;

  /// The model that the card describes, untrained.
  std::shared_ptr<Model> build() const;
};

}  // namespace adaact
