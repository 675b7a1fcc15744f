#include "optim/device/device_session.h"

#include <utility>

#ifdef ADAACT_WITH_CUDA

namespace adaact {
namespace {

torch::Device gpu_of(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    if (group.params().empty()) continue;
    const auto device = group.params().front().device();
    TORCH_CHECK(device.is_cuda(), "adaact: steps on a device were asked for parameters on ", device,
                ", expected a GPU");
    return device;
  }
  TORCH_CHECK(false, "adaact: steps on a device were asked of an optimizer without parameters");
}

}  // namespace

DeviceSession::DeviceSession(const torch::optim::Optimizer& optimizer)
    : step_(make_device_step(static_cast<std::int64_t>(optimizer.param_groups().size()),
                             gpu_of(optimizer))) {}

void DeviceSession::send_learning_rates(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  if (rates == sent_rates_) return;
  const auto groups = static_cast<std::int64_t>(rates.size());
  TORCH_CHECK(groups == step_.lr.numel(), "adaact: there are ", groups,
              " parameter groups, expected the ", step_.lr.numel(),
              " that were there when steps on the device began");
  // From pinned memory nobody waits for the steps that are under way.
  step_.lr.copy_(torch::tensor(rates, torch::kFloat64).pin_memory(), /*non_blocking=*/true);
  sent_rates_ = std::move(rates);
}

void DeviceSession::begin(const std::vector<std::pair<torch::Tensor, std::string>>& checked) {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> complaints;
  for (const auto& [tensor, complaint] : checked) {
    tensors.push_back(tensor);
    complaints.push_back(complaint);
  }
  TORCH_CHECK(complaints_.empty() || complaints == complaints_,
              "adaact: this step on the device has other gradients or observations than the first "
              "one, expected the same in all");
  complaints_ = std::move(complaints);
  begin_step_cuda(step_);
  check_finite_cuda(tensors, /*first_index=*/0, step_);
}

void DeviceSession::end() { end_step_cuda(step_); }

DeviceSession::News DeviceSession::read() {
  const auto counts = read_counts(step_);
  News news{counts.accepted - accepted_, counts.rejected - rejected_, {}};
  accepted_ = counts.accepted;
  rejected_ = counts.rejected;
  if (news.rejected > 0) news.complaint = complaints_.at(static_cast<std::size_t>(counts.culprit));
  return news;
}

}  // namespace adaact

#endif
