// The format of state and weights.

#include <adaact/io/safetensors.h>
#include <torch/torch.h>

#include "fuzz/fuzz_targets.h"
#include "fuzz/tensor_file_mutator.h"

namespace adaact::fuzz {
namespace {

void read_safetensors(const std::string& bytes) {
  const auto file = TensorFile::from_bytes(bytes, TensorFile::Checksum::IfPresent, kInputName);
  // What was read can be written, and is then read as the same.
  const auto written = file.to_bytes();
  const auto again = TensorFile::from_bytes(written, TensorFile::Checksum::Required, kInputName);
  require(again.to_bytes() == written, "a file that was read and written differs from itself");
}

std::vector<Seed> safetensors_seeds() {
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"note", "ä \"quoted\" \\ text"}};
  file.tensors["weight"] = torch::arange(6, torch::kFloat32).view({2, 3});
  file.tensors["counter"] = torch::tensor(std::int64_t{7});
  file.tensors["flags"] = torch::tensor({true, false, true});
  file.tensors["half"] = torch::ones({2}, torch::kFloat16);
  file.tensors["brain"] = torch::ones({1, 2, 1}, torch::kBFloat16);
  file.tensors["bytes"] = torch::ones({3}, torch::kUInt8);
  file.tensors["empty"] = torch::zeros({0, 4}, torch::kFloat64);
  // As other programs write it: spaces in the header, no checksum.
  const std::string header = R"({ "a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}, )"
                             R"("b": {"dtype": "I16", "shape": [], "data_offsets": [8, 10]} })";
  std::string foreign(8, '\0');
  foreign[0] = static_cast<char>(header.size());
  foreign += header + std::string(10, '\1');
  return {
      {"all_types", file.to_bytes()}, {"nothing", TensorFile().to_bytes()}, {"foreign", foreign}};
}

}  // namespace

FuzzTarget safetensors_target() {
  return {"safetensors", read_safetensors, safetensors_seeds, mutate_tensor_file};
}

}  // namespace adaact::fuzz
