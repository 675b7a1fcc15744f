#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/augment.h>
#include <adaact/io/safetensors.h>
#include <adaact/train/model_card.h>

namespace adaact {

struct ClassProbability {
  std::string name;
  double probability = 0.0;
};

/// Trained weights in use: names what is in a picture.
class Classifier {
 public:
  /// Weights that a training run wrote; they say which model and which classes they are for.
  explicit Classifier(const std::filesystem::path& weights, torch::Device device = torch::kCPU);

  /// The likeliest classes of a JPEG, PNG or WebP file, likeliest first.
  std::vector<ClassProbability> classify(const std::filesystem::path& image,
                                         std::size_t most = 5) const;

  const ModelCard& card() const noexcept { return card_; }

 private:
  Classifier(TensorFile weights, const std::string& source, torch::Device device);

  torch::Tensor prepare(const std::filesystem::path& image) const;

  ModelCard card_;
  std::shared_ptr<Model> model_;
  Augmenter normalizer_;
  torch::Device device_;
};

}  // namespace adaact
