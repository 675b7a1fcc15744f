#include "io/tensor_header.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "io/json_text.h"

namespace adaact {
namespace {

using nlohmann::json;

/// LibTorch's operators take no more.
constexpr std::size_t kMostDimensions = 64;

struct DtypeName {
  torch::ScalarType dtype;
  const char* name;
};

constexpr DtypeName kDtypes[] = {
    {torch::kFloat64, "F64"},   {torch::kFloat32, "F32"}, {torch::kFloat16, "F16"},
    {torch::kBFloat16, "BF16"}, {torch::kInt64, "I64"},   {torch::kInt32, "I32"},
    {torch::kInt16, "I16"},     {torch::kInt8, "I8"},     {torch::kUInt8, "U8"},
    {torch::kBool, "BOOL"},
};

torch::ScalarType dtype_of(const std::string& name, const std::string& tensor,
                           const std::string& source) {
  for (const auto& known : kDtypes) {
    if (name == known.name) return known.dtype;
  }
  TORCH_CHECK(false, "adaact: ", source, ": tensor '", tensor, "' has unknown dtype '", name, "'");
}

std::vector<std::int64_t> read_shape(const std::string& name, const json& sizes,
                                     const std::string& source) {
  TORCH_CHECK(sizes.is_array(), "adaact: ", source, ": the shape of tensor '", name,
              "' is no list of sizes");
  TORCH_CHECK(sizes.size() <= kMostDimensions, "adaact: ", source, ": tensor '", name, "' has ",
              sizes.size(), " dimensions, expected at most ", kMostDimensions);
  const auto what = "adaact: " + source + ": a size of '" + name + "'";
  std::vector<std::int64_t> shape;
  for (const auto& size : sizes) shape.push_back(whole_number(size, what));
  return shape;
}

/// How many bytes a tensor of this shape has. The product of its sizes must be a number even where one of
/// them is 0: the strides of an empty tensor are products of the others.
std::uint64_t bytes_of(const std::vector<std::int64_t>& shape, torch::ScalarType dtype,
                       const std::string& name, const std::string& source) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = c10::elementSize(dtype);
  bool is_empty = false;
  for (const auto size : shape) {
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    is_empty = is_empty || size == 0;
    TORCH_CHECK(size >= 0 && bytes <= kMost / factor, "adaact: ", source, ": tensor '", name,
                "' of shape ", at::IntArrayRef(shape), " is larger than any file");
    bytes *= factor;
  }
  return is_empty ? 0 : bytes;
}

DescribedTensor read_description(const std::string& name, const json& entry,
                                 std::uint64_t data_bytes, const std::string& source) {
  const auto dtype = dtype_of(entry.at("dtype").get<std::string>(), name, source);
  auto shape = read_shape(name, entry.at("shape"), source);
  const auto bytes = bytes_of(shape, dtype, name, source);
  const auto what = "adaact: " + source + ": an offset of '" + name + "'";
  const auto begin = whole_number(entry.at("data_offsets").at(0), what);
  const auto end = whole_number(entry.at("data_offsets").at(1), what);
  TORCH_CHECK(begin >= 0 && begin <= end && static_cast<std::uint64_t>(end) <= data_bytes &&
                  static_cast<std::uint64_t>(end - begin) == bytes,
              "adaact: ", source, ": tensor '", name, "' lies at bytes [", begin, ", ", end,
              ") of ", data_bytes, ", expected ", bytes, " bytes");
  return {name, dtype, std::move(shape), static_cast<std::uint64_t>(begin), bytes};
}

void check_that_they_fill(std::vector<DescribedTensor> tensors, std::uint64_t data_bytes,
                          const std::string& source) {
  std::sort(tensors.begin(), tensors.end(),
            [](const DescribedTensor& one, const DescribedTensor& other) {
              return std::tie(one.begin, one.bytes) < std::tie(other.begin, other.bytes);
            });
  std::uint64_t used = 0;
  for (const auto& tensor : tensors) {
    if (tensor.bytes == 0) continue;
    TORCH_CHECK(tensor.begin == used, "adaact: ", source,
                ": the data has a hole or an overlap at byte ", used, ": tensor '", tensor.name,
                "' begins at byte ", tensor.begin);
    used += tensor.bytes;
  }
  TORCH_CHECK(used == data_bytes, "adaact: ", source, " is truncated or damaged: its tensors take ",
              used, " bytes, ", data_bytes, " are there");
}

}  // namespace

const char* dtype_name(torch::ScalarType dtype, const std::string& tensor) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return known.name;
  }
  TORCH_CHECK(false, "adaact: tensor '", tensor, "' has dtype ", dtype,
              ", which safetensors cannot hold");
}

std::vector<DescribedTensor> described_tensors(const json& header, std::uint64_t data_bytes,
                                               const std::string& source) {
  std::vector<DescribedTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    tensors.push_back(read_description(name, entry, data_bytes, source));
  }
  check_that_they_fill(tensors, data_bytes, source);
  return tensors;
}

}  // namespace adaact
