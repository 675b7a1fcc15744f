#include "optim/kronecker/gradient_watch.h"

#include <utility>

#include <torch/csrc/autograd/engine.h>

namespace adaact {
namespace {

bool is_known_to_be_zero(const torch::Tensor& gradient) {
  return gradient.device().is_cpu() && gradient.layout() == torch::kStrided &&
         !gradient.any().item<bool>();
}

}  // namespace

GradientWatch::GradientWatch(std::vector<torch::Tensor> parameters)
    : parameters_(std::move(parameters)), left_(parameters_.size()) {}

GradientWatch::Mark GradientWatch::mark_of(std::size_t parameter) const {
  const auto& gradient = parameters_[parameter].grad();
  if (!gradient.defined()) return {};
  return {gradient.unsafeGetTensorImpl(), static_cast<std::int64_t>(gradient._version())};
}

void GradientWatch::expect_addition(std::size_t parameter) {
  // The gradient is added when the pass has come to its leaves.
  torch::autograd::Engine::get_default_engine().queue_callback(
      [weak_self = weak_from_this(), parameter] {
        const auto self = weak_self.lock();
        if (self == nullptr) return;
        const std::lock_guard<std::mutex> lock(self->mutex_);
        self->left_[parameter] = self->mark_of(parameter);
      });
}

bool GradientWatch::was_dropped(std::size_t parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = mark_of(parameter);
  const auto before = std::exchange(left_[parameter], now);
  if (now.tensor == before.tensor && now.version == before.version) return false;
  return now.tensor == nullptr || is_known_to_be_zero(parameters_[parameter].grad());
}

}  // namespace adaact
