// What a file of trained weights says about itself, up to the classes of a picture.

#include <adaact/models/weights.h>
#include <adaact/train/classifier.h>
#include <adaact/train/model_card.h>

#include "data/image_files.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/input_folder.h"
#include "fuzz/small_mlp.h"
#include "fuzz/tensor_file_mutator.h"

namespace adaact::fuzz {
namespace {

/// The hidden layers that every mlp has which a card can ask for.
const std::vector<std::int64_t>& usual_hidden() {
  static const auto hidden = default_model_options("mlp").hidden;
  return hidden;
}

void read_model_card(const std::string& bytes) {
  static const InputFolder folder;
  static const auto picture = [] {
    auto path = folder.path() / "picture.png";
    testing::write_png(path, testing::varied_image(4, 3, 3));
    return path;
  }();
  static const auto weights = state_tensors(*small_mlp(usual_hidden()));
  auto file = TensorFile::from_bytes(bytes, TensorFile::Checksum::IfPresent, kInputName);
  ModelCard::from_metadata(file.metadata, kInputName);
  // Weights would make every input a hundred times as long: those of the seed's model stand in.
  for (const auto& [name, tensor] : weights) file.tensors.emplace(name, tensor);
  const Classifier classifier(folder.write("model.safetensors", file.to_bytes()));
  double sum = 0.0;
  for (const auto& [name, probability] : classifier.classify(picture)) sum += probability;
  require(sum > 0.99 && sum < 1.01, "the probabilities of all classes do not add up to 1");
}

TensorFile card_file(const ModelCard& card) {
  TensorFile file;
  file.metadata = card.to_metadata();
  return file;
}

std::vector<Seed> model_card_seeds() {
  ModelCard card;
  card.model = "mlp";
  card.data.name = "mnist";
  card.data.shape = {1, 1, 1};
  card.data.class_names = {"zero", "one"};
  card.data.normalization = {{.5F}, {.25F}};
  const auto plain = card_file(card).to_bytes();
  card.resize_size = 3;
  return {{"mlp", plain}, {"resized", card_file(card).to_bytes()}};
}

}  // namespace

FuzzTarget model_card_target() {
  // The file that is read has the weights too, four copies of which may be held at once.
  return {"model_card", read_model_card, model_card_seeds, mutate_tensor_file};
}

}  // namespace adaact::fuzz
