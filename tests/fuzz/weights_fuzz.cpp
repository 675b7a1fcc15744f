// Weights for a model that is there.

#include <adaact/models/weights.h>
#include <torch/torch.h>

#include "fuzz/fuzz_targets.h"
#include "fuzz/small_mlp.h"
#include "fuzz/tensor_file_mutator.h"

namespace adaact::fuzz {
namespace {

TensorFile weights_of(const Model& model) {
  TensorFile file;
  for (const auto& [name, tensor] : state_tensors(model)) file.tensors[name] = tensor;
  return file;
}

void read_weights(const std::string& bytes) {
  static const auto model = small_mlp();
  static const auto first = weights_of(*small_mlp()).to_bytes();
  const auto file = TensorFile::from_bytes(bytes, TensorFile::Checksum::IfPresent, kInputName);
  load_weights(*model, TensorFile::from_bytes(first, TensorFile::Checksum::Required, "first"),
               "first");
  LoadOptions options;
  options.replace_head = true;
  try {
    load_weights(*model, file, kInputName, options);
  } catch (...) {
    require(weights_of(*model).to_bytes() == first, "weights that were refused changed the model");
    throw;
  }
}

std::vector<Seed> weights_seeds() {
  auto other_head = weights_of(*small_mlp());
  other_head.tensors["fc2.weight"] = torch::ones({3, 2});
  other_head.tensors["fc2.bias"] = torch::ones({3});
  return {{"fits", weights_of(*small_mlp()).to_bytes()}, {"other_head", other_head.to_bytes()}};
}

}  // namespace

FuzzTarget weights_target() { return {"weights", read_weights, weights_seeds, mutate_tensor_file}; }

}  // namespace adaact::fuzz
