#include "optim/device/device_session.h"

#include <algorithm>
#include <utility>

namespace adaact {

bool DeviceSession::can_check(const std::vector<torch::Tensor>& tensors) {
  return !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [&](const torch::Tensor& tensor) {
           return tensor.is_cuda() && tensor.device() == tensors[0].device() &&
                  tensor.is_floating_point();
         });
}

DeviceSession::DeviceSession(std::int64_t groups, torch::Device device)
    : step_(make_device_step(groups, device)) {}

bool DeviceSession::is_for(std::int64_t groups, torch::Device device) const {
  return step_.lr.numel() == groups && step_.lr.device() == device;
}

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

void DeviceSession::begin(const std::vector<torch::Tensor>& checked) {
  begin_step_cuda(step_);
  check_finite_cuda(checked, /*first_index=*/0, step_);
}

std::optional<std::size_t> DeviceSession::culprit() const {
  const auto culprit = step_.culprit.item<std::int64_t>();
  if (culprit == kNoCulprit) return std::nullopt;
  return static_cast<std::size_t>(culprit);
}

void DeviceSession::end() { end_step_cuda(step_); }

DeviceSession::News DeviceSession::read() {
  const auto counts = read_counts(step_);
  News news;
  news.accepted = counts.accepted - std::exchange(accepted_, counts.accepted);
  news.rejected = counts.rejected;
  if (news.rejected > 0) {
    news.culprit = static_cast<std::size_t>(counts.culprit);
    step_.rejected.zero_();
    step_.culprit.fill_(kNoCulprit);
  }
  return news;
}

}  // namespace adaact
