#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/augment.h>
#include <adaact/train/model_card.h>

namespace adaact {

struct RgbImage;
struct TrainedModel;

struct ClassProbability {
  std::string name;
  double probability = 0.0;
};

/// Trained weights in use: names what is in pictures. docs/classifier.md has a whole program.
///
/// Nothing changes once it is made: several threads may call the const methods of one classifier at once.
class Classifier {
 public:
  /// The likeliest classes of one image, likeliest first.
  using Classes = std::vector<ClassProbability>;

  /// Weights that a training run wrote; they say which model and which classes they are for.
  explicit Classifier(const std::filesystem::path& weights, torch::Device device = torch::kCPU);

  /// The classes of a JPEG, PNG or WebP file of any size.
  Classes classify(const std::filesystem::path& image, std::size_t most = 5) const;

  /// The classes of several files, in their order. A file that is no picture is an error that names it.
  std::vector<Classes> classify(const std::vector<std::filesystem::path>& images,
                                std::size_t most = 5) const;

  /// The classes of every image of a batch, as probabilities() takes it.
  std::vector<Classes> classify(const torch::Tensor& images, std::size_t most = 5) const;

  /// (N, classes) float32 on the CPU, in the order of card().data.class_names.
  ///
  /// Images are (N, channels, height, width), bytes or floating-point numbers in [0, 1], on any device and not
  /// normalised. Those of the model's own size are taken as they are, all others resized and cropped as files
  /// are, in 8 bits. Of 3 channels a model for 1 takes the luminance; 1 channel serves a model for 3.
  torch::Tensor probabilities(const torch::Tensor& images) const;

  const ModelCard& card() const noexcept { return card_; }

 private:
  Classifier(TrainedModel trained, torch::Device device);

  /// The shorter side of a picture before the centre is cropped.
  std::int64_t resize_size() const;
  /// The model's input from a picture of any size, into as many floats as it has numbers.
  void prepare(const RgbImage& picture, float* input) const;
  torch::Tensor prepare(const torch::Tensor& images) const;
  torch::Tensor empty_inputs(std::int64_t images) const;
  torch::Tensor probabilities_of(const torch::Tensor& inputs) const;
  Classes likeliest(const torch::Tensor& probabilities, std::size_t most) const;

  ModelCard card_;
  std::shared_ptr<Model> model_;
  Augmenter normalizer_;
  torch::Device device_;
};

}  // namespace adaact
