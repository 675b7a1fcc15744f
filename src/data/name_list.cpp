#include "data/name_list.h"

#include <cstring>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

/// A copy of numbers or bytes as a tensor.
torch::Tensor as_tensor(const void* data, std::size_t count, torch::ScalarType type) {
  auto tensor = torch::empty({static_cast<std::int64_t>(count)}, type);
  if (count > 0) std::memcpy(tensor.data_ptr(), data, tensor.nbytes());
  return tensor;
}

const torch::Tensor& row_of(const TensorFile& file, const std::string& name,
                            torch::ScalarType type) {
  const auto& tensor = file.at(name);
  TORCH_CHECK(tensor.scalar_type() == type && tensor.dim() == 1, "adaact: '", name, "' has type ",
              tensor.scalar_type(), " and ", tensor.dim(), " dimensions, expected ", type,
              " and 1");
  return tensor;
}

}  // namespace

void NameList::add(std::string_view name) {
  bytes_ += name;
  ends_.push_back(static_cast<std::int64_t>(bytes_.size()));
}

std::string_view NameList::operator[](std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  const auto begin = at == 0 ? 0 : static_cast<std::size_t>(ends_[at - 1]);
  return std::string_view(bytes_).substr(begin, static_cast<std::size_t>(ends_[at]) - begin);
}

std::vector<std::string> NameList::strings() const {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < size(); ++i) names.emplace_back((*this)[i]);
  return names;
}

NameList NameList::of(const std::vector<std::string>& names) {
  NameList list;
  for (const auto& name : names) list.add(name);
  return list;
}

void NameList::put_into(TensorFile& file, const std::string& name) const {
  file.tensors[name + ".bytes"] = as_tensor(bytes_.data(), bytes_.size(), torch::kUInt8);
  put_numbers(file, name + ".ends", ends_);
}

NameList NameList::taken_from(const TensorFile& file, const std::string& name) {
  NameList list;
  const auto& bytes = row_of(file, name + ".bytes", torch::kUInt8);
  if (bytes.numel() > 0) {
    list.bytes_.assign(static_cast<const char*>(bytes.data_ptr()), bytes.nbytes());
  }
  list.ends_ = take_numbers(file, name + ".ends");
  std::int64_t before = 0;
  for (const auto end : list.ends_) {
    TORCH_CHECK(end >= before && end <= bytes.numel(), "adaact: a text of '", name, "' ends at ",
                end, ", expected ", before, " to ", bytes.numel());
    before = end;
  }
  return list;
}

void put_numbers(TensorFile& file, const std::string& name,
                 const std::vector<std::int64_t>& numbers) {
  file.tensors[name] = as_tensor(numbers.data(), numbers.size(), torch::kInt64);
}

std::vector<std::int64_t> take_numbers(const TensorFile& file, const std::string& name) {
  const auto& tensor = row_of(file, name, torch::kInt64);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(tensor.numel()));
  if (!numbers.empty()) std::memcpy(numbers.data(), tensor.data_ptr(), tensor.nbytes());
  return numbers;
}

}  // namespace adaact
