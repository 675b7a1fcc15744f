#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>
#include <nlohmann/json.hpp>

namespace adaact {

/// The name in a safetensors header under which strings are kept instead of a tensor.
inline constexpr char kMetadata[] = "__metadata__";

/// A tensor as the header of a safetensors file describes it.
struct DescribedTensor {
  std::string name;
  torch::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;  // in the data
  std::uint64_t bytes;
};

/// The tensors of a header, which is an object. They fill the data side by side: many that shared their
/// bytes would take far more memory than the file does. Errors name the source and the tensor.
std::vector<DescribedTensor> described_tensors(const nlohmann::json& header,
                                               std::uint64_t data_bytes, const std::string& source);

/// "F32" for float32; an error for what safetensors cannot hold.
const char* dtype_name(torch::ScalarType dtype, const std::string& tensor);

}  // namespace adaact
