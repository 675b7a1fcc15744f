#include "ranks/gradient_messages.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <torch/torch.h>

namespace adaact {
namespace {

/// So many messages carry the gradients of a model where their size does not demand more.
constexpr std::int64_t kUsualMessages = 8;
/// A message of fewer bytes than this takes as long as its latency, so two of them take twice as long as one.
constexpr std::int64_t kSmallestUsefulMessage = 16 << 10;
/// Every gradient begins in its message at a multiple of so many bytes, as loops over vectors want it.
constexpr std::int64_t kGradientAlignment = 64;

std::string dtype_and_shape(torch::ScalarType type, torch::IntArrayRef sizes,
                            torch::Device device) {
  std::ostringstream text;
  text << c10::toString(type) << " of shape " << sizes;
  if (!device.is_cpu()) text << " on " << c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  return text.str();
}

std::vector<std::int64_t> row_major_strides(torch::IntArrayRef sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (auto i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

/// Whether the strides agree in all dimensions that have more than one entry. The stride of another has no meaning.
bool are_same_strides(torch::IntArrayRef one, torch::IntArrayRef other, torch::IntArrayRef sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1 && one[i] != other[i]) return false;
  }
  return true;
}

/// The numbers that a parameter contributes to its message, in one dimension: its gradient, or zeros where it has none.
torch::Tensor piece_of_message(const ExchangedParameter& parameter) {
  const auto& gradient = parameter.tensor.grad();
  const auto numbers = parameter.numbers;
  if (!gradient.defined()) return torch::zeros({numbers}, parameter.tensor.options());
  if (parameter.has_order_of_message(gradient)) return gradient.as_strided({numbers}, {1});
  const auto ordered = torch::empty_strided(parameter.sizes, parameter.strides, gradient.options());
  ordered.copy_(gradient);
  return ordered.as_strided({numbers}, {1});
}

torch::Tensor new_message(const GradientBucket& bucket,
                          const std::vector<ExchangedParameter>& parameters) {
  std::vector<torch::Tensor> pieces;
  for (const auto p : bucket.parameters) {
    const auto& parameter = parameters[p];
    pieces.push_back(piece_of_message(parameter));
    const auto padding = parameter.numbers_with_padding - parameter.numbers;
    if (padding > 0) pieces.push_back(bucket.padding.narrow(0, 0, padding));
  }
  return torch::cat(pieces);
}

/// Whether passes have added to the gradients where the last message left them.
bool is_last_message(const GradientBucket& bucket,
                     const std::vector<ExchangedParameter>& parameters) {
  const auto& first = parameters[bucket.parameters.front()].tensor.grad();
  if (!first.defined() || first.storage().nbytes() != static_cast<std::size_t>(bucket.bytes)) {
    return false;
  }
  std::int64_t offset = 0;
  return std::all_of(bucket.parameters.begin(), bucket.parameters.end(), [&](std::size_t p) {
    const auto& parameter = parameters[p];
    const auto& gradient = parameter.tensor.grad();
    const bool is_in_place = gradient.defined() && !gradient.requires_grad() &&
                             gradient.is_alias_of(first) && gradient.storage_offset() == offset &&
                             parameter.has_order_of_message(gradient);
    offset += parameter.numbers_with_padding;
    return is_in_place;
  });
}

/// A tensor over a part of a message's memory. For autograd it is no view of the message, because all views of one tensor
/// share the count of their changes.
torch::Tensor part_of_message(const torch::Tensor& message, torch::IntArrayRef sizes,
                              torch::IntArrayRef strides, std::int64_t offset) {
  return message.as_strided(sizes, strides, offset).variable_data();
}

torch::Tensor last_message(const GradientBucket& bucket,
                           const std::vector<ExchangedParameter>& parameters) {
  const auto& first = parameters[bucket.parameters.front()];
  return part_of_message(first.tensor.grad(), {bucket.bytes / first.number_bytes()}, {1}, 0);
}

}  // namespace

std::string dtype_and_shape(const torch::Tensor& tensor) {
  return dtype_and_shape(tensor.scalar_type(), tensor.sizes(), tensor.device());
}

ExchangedParameter::ExchangedParameter(std::string its_name, const torch::Tensor& parameter)
    : name(std::move(its_name)),
      tensor(parameter),
      type(parameter.scalar_type()),
      device(parameter.device()),
      sizes(parameter.sizes().vec()),
      // LibTorch gives a gradient the strides of its parameter, where those leave no gaps.
      strides(parameter.is_non_overlapping_and_dense() ? parameter.strides().vec()
                                                       : row_major_strides(sizes)),
      numbers(parameter.numel()) {
  const auto step = std::max<std::int64_t>(kGradientAlignment / number_bytes(), 1);
  numbers_with_padding = (numbers + step - 1) / step * step;
}

std::int64_t ExchangedParameter::number_bytes() const {
  return static_cast<std::int64_t>(c10::elementSize(type));
}

std::string ExchangedParameter::description() const {
  std::ostringstream text;
  text << name << ", " << dtype_and_shape(type, sizes, device);
  if (!are_same_strides(strides, row_major_strides(sizes), sizes)) {
    text << " with strides " << torch::IntArrayRef(strides);
  }
  return text.str();
}

bool ExchangedParameter::has_order_of_message(const torch::Tensor& gradient) const {
  return are_same_strides(gradient.strides(), strides, sizes);
}

void ExchangedParameter::check_gradient() const {
  const auto& gradient = tensor.grad();
  const auto& found = gradient.defined() ? gradient : tensor;
  TORCH_CHECK(found.layout() == torch::kStrided, "the gradient of ", name,
              " is sparse; ranks can exchange dense ones only");
  TORCH_CHECK(found.scalar_type() == type && found.sizes() == sizes && found.device() == device,
              "the gradient of ", name, " is ", dtype_and_shape(found), ", expected ",
              dtype_and_shape(type, sizes, device),
              ", as it was when the GradientExchange was made; after a model is converted or moved "
              "it needs a new one");
}

std::vector<GradientBucket> plan_gradient_buckets(std::vector<ExchangedParameter>& parameters,
                                                  std::int64_t most_bytes) {
  std::int64_t all_bytes = 0;
  for (const auto& parameter : parameters) all_bytes += parameter.bytes_with_padding();
  const auto enough = std::max(all_bytes / kUsualMessages, kSmallestUsefulMessage);

  std::vector<GradientBucket> buckets;
  for (auto i = parameters.size(); i-- > 0;) {
    const auto& parameter = parameters[i];
    const auto bytes = parameter.bytes_with_padding();
    const auto latest =
        std::find_if(buckets.rbegin(), buckets.rend(), [&](const GradientBucket& bucket) {
          const auto& member = parameters[bucket.parameters.front()];
          return member.type == parameter.type && member.device == parameter.device;
        });
    const bool has_room =
        latest != buckets.rend() && latest->bytes < enough && latest->bytes + bytes <= most_bytes;
    auto& bucket = has_room ? *latest : buckets.emplace_back();
    bucket.parameters.push_back(i);
    bucket.bytes += bytes;
  }
  // The bucket that is complete first is sent first. Buckets of one dtype on one device are in this order already.
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const GradientBucket& one, const GradientBucket& other) {
                     return one.parameters.back() > other.parameters.back();
                   });
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    auto& bucket = buckets[b];
    for (const auto p : bucket.parameters) parameters[p].bucket = b;
    const auto& first = parameters[bucket.parameters.front()];
    bucket.padding = torch::zeros({kGradientAlignment}, first.tensor.options());
  }
  return buckets;
}

void write_message(GradientBucket& bucket, std::vector<ExchangedParameter>& parameters) {
  const torch::NoGradGuard no_grad;
  const auto count = bucket.parameters.size();
  bucket.givers = torch::zeros({static_cast<std::int64_t>(count)}, torch::kInt64);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& parameter = parameters[bucket.parameters[i]];
    parameter.check_gradient();
    bucket.givers.data_ptr<std::int64_t>()[i] = parameter.tensor.grad().defined() ? 1 : 0;
  }
  bucket.gradients = is_last_message(bucket, parameters) ? last_message(bucket, parameters)
                                                         : new_message(bucket, parameters);
  bucket.views.clear();
  std::int64_t offset = 0;
  for (const auto p : bucket.parameters) {
    auto& parameter = parameters[p];
    bucket.views.push_back(
        part_of_message(bucket.gradients, parameter.sizes, parameter.strides, offset));
    offset += parameter.numbers_with_padding;
    auto& gradient = parameter.tensor.mutable_grad();
    if (gradient.defined()) gradient = bucket.views.back();
  }
}

void read_message(GradientBucket& bucket, std::vector<ExchangedParameter>& parameters) {
  const auto* givers = bucket.givers.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    if (givers[i] > 0) parameters[bucket.parameters[i]].tensor.mutable_grad() = bucket.views[i];
  }
  bucket.views.clear();
}

}  // namespace adaact
