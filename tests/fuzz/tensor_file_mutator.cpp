#include "fuzz/tensor_file_mutator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include <adaact/io/safetensors.h>
#include <torch/torch.h>

#include "io/checksum.h"

namespace adaact::fuzz {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMoreText = 64;  // that a string may grow by

template <typename Map>
auto any_of(Map& map, Random& random) {
  return std::next(map.begin(), static_cast<std::ptrdiff_t>(random() % map.size()));
}

/// Text of letters that a header can hold.
std::string mutate_text(const std::string& text) {
  auto mutated = mutate_bytes(text, text.size() + kMoreText);
  for (auto& letter : mutated) letter = static_cast<char>(letter & 0x7F);
  return mutated;
}

torch::Tensor with_other_bytes(const torch::Tensor& tensor) {
  auto other = tensor.contiguous().clone();
  if (other.numel() == 0) return other;
  auto* data = static_cast<char*>(other.data_ptr());
  const auto mutated = mutate_bytes(std::string(data, other.nbytes()), other.nbytes());
  std::memcpy(data, mutated.data(), std::min(mutated.size(), other.nbytes()));
  return other;
}

torch::Tensor with_other_value(const torch::Tensor& tensor, Random& random) {
  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 8> kValues{
      0.0,    -1.0,      1.0,        1e300,
      1e-300, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  auto other = tensor.clone();
  if (other.numel() == 0 || !other.is_floating_point()) return other;
  auto numbers = other.view({-1});
  numbers[static_cast<std::int64_t>(random()) % numbers.numel()] =
      kValues[random() % kValues.size()];
  return other;
}

torch::Tensor with_other_shape(const torch::Tensor& tensor, Random& random) {
  switch (random() % 5) {
    case 0:
      return tensor.reshape({-1});
    case 1:
      return tensor.unsqueeze(0);
    case 2:
      return tensor.dim() > 0 ? tensor.transpose(0, -1).contiguous() : tensor;
    case 3:
      return torch::zeros({0}, tensor.options());
    default:
      return torch::cat({tensor.reshape({-1}), tensor.reshape({-1})});
  }
}

torch::Tensor with_other_type(const torch::Tensor& tensor, Random& random) {
  constexpr std::array<torch::ScalarType, 6> kTypes{torch::kFloat64,  torch::kFloat32,
                                                    torch::kBFloat16, torch::kInt64,
                                                    torch::kUInt8,    torch::kBool};
  const auto type = kTypes[random() % kTypes.size()];
  // Bytes of the right number: what they mean as another type does not matter, and a conversion of NaN
  // to an integer is undefined.
  return torch::zeros(tensor.sizes(), tensor.options().dtype(type));
}

void change_tensor(TensorFile& file, Random& random) {
  const auto entry = any_of(file.tensors, random);
  auto& tensor = entry->second;
  switch (random() % 8) {
    case 0:
    case 1:
      tensor = with_other_bytes(tensor);
      break;
    case 2:
    case 3:
      tensor = with_other_value(tensor, random);
      break;
    case 4:
      tensor = with_other_shape(tensor, random);
      break;
    case 5:
      tensor = with_other_type(tensor, random);
      break;
    case 6:
      file.tensors[mutate_text(entry->first)] = torch::Tensor(tensor);
      break;
    default:
      file.tensors.erase(entry);
  }
}

void change_string(TensorFile& file, Random& random) {
  const auto entry = any_of(file.metadata, random);
  if (once_in(16, random)) {
    file.metadata.erase(entry);
  } else if (once_in(16, random)) {
    file.metadata[mutate_text(entry->first)] = std::string(entry->second);
  } else {
    entry->second = mutate_text(entry->second);
  }
}

void change(TensorFile& file, Random& random) {
  const bool has_tensors = !file.tensors.empty();
  if (!file.metadata.empty() && (!has_tensors || !once_in(3, random))) {
    change_string(file, random);
  } else if (has_tensors) {
    change_tensor(file, random);
  }
}

/// The checksum of what is there, in the place where one stands.
void repair_checksum(std::string& bytes) {
  static const std::string field = "\"adaact.checksum\":\"";
  constexpr std::size_t kDigits = 16;
  const auto found = bytes.find(field);
  if (found == std::string::npos) return;
  const auto at = found + field.size();
  if (bytes.size() < at + kDigits) return;
  bytes.replace(at, kDigits, kDigits, '0');
  Crc64 checksum;
  checksum.update(bytes);
  bytes.replace(at, kDigits, checksum.hex());
}

/// Other text in the header, whose length is right again.
std::string mutate_header(const std::string& bytes, std::size_t most) {
  std::uint64_t length = 0;
  if (bytes.size() < kLengthBytes) return mutate_bytes(bytes, most);
  std::memcpy(&length, bytes.data(), kLengthBytes);
  length = std::min<std::uint64_t>(length, bytes.size() - kLengthBytes);
  const auto data = bytes.substr(kLengthBytes + length);
  const auto header = mutate_text(bytes.substr(kLengthBytes, length));
  const std::uint64_t new_length = header.size();
  auto mutated = std::string(kLengthBytes, '\0') + header + data;
  std::memcpy(mutated.data(), &new_length, kLengthBytes);
  return mutated.size() <= most ? mutated : bytes;
}

}  // namespace

std::string mutate_tensor_file(std::string bytes, std::size_t most, Random& random) {
  if (!once_in(4, random)) {
    try {
      auto file = TensorFile::from_bytes(bytes, TensorFile::Checksum::IfPresent, kInputName);
      change(file, random);
      auto mutated = file.to_bytes();
      if (mutated.size() <= most) return mutated;
    } catch (const std::exception&) {
      // It is no tensor file any more, or what it has become cannot be written as one.
    }
  }
  auto mutated =
      once_in(2, random) ? mutate_bytes(std::move(bytes), most) : mutate_header(bytes, most);
  if (!once_in(8, random)) repair_checksum(mutated);
  return mutated;
}

}  // namespace adaact::fuzz
