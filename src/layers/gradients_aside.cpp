#include "layers/gradients_aside.h"

#include <mutex>
#include <utility>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace adaact {
namespace {

/// As many layers as the second stream may be behind. What it reads is held as long.
constexpr std::size_t kMostUnderWay = 2;

/// The second stream of each stream, always the same: memory that it once had it gets again.
c10::Stream companion_of(c10::Stream stream) {
  static std::mutex mutex;
  static std::unordered_map<c10::Stream, c10::Stream> companions;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = companions.find(stream);
  if (known != companions.end()) return known->second;
  const c10::impl::VirtualGuardImpl streams(stream.device_type());
  const auto companion = streams.getStreamFromGlobalPool(stream.device());
  return companions.emplace(stream, companion).first->second;
}

}  // namespace

GradientsAside::~GradientsAside() {
  try {
    while (!under_way_.empty()) wait_for_first();
  } catch (...) {  // an error of the device is the next caller's to see
  }
}

void GradientsAside::add(const torch::Tensor& weight, std::vector<torch::Tensor> read,
                         const std::function<torch::Tensor()>& make) {
  const auto type = weight.device().type();
  const auto stream = c10::impl::VirtualGuardImpl(type).getStream(weight.device());
  const auto companion = companion_of(stream);
  while (under_way_.size() >= kMostUnderWay) wait_for_first();

  // Memory that the companion gets was its own before, and whoever used it on this stream since has let go of it: this
  // event comes after that use as well.
  c10::Event begun(type);
  begun.record(stream);
  begun.block(companion);
  under_way_.push_back({std::move(read), c10::Event(type), stream});
  auto& done = under_way_.back().done;
  const c10::StreamGuard guard(companion);
  try {
    auto& sum = sums_[weight.unsafeGetTensorImpl()];
    const auto part = make();
    sum = sum.defined() ? sum + part : part;
  } catch (...) {
    done.record(companion);
    throw;
  }
  done.record(companion);
}

torch::Tensor GradientsAside::take(const torch::Tensor& weight) {
  while (!under_way_.empty()) wait_for_first();
  const auto found = sums_.find(weight.unsafeGetTensorImpl());
  if (found == sums_.end()) return {};
  auto sum = std::move(found->second);
  sums_.erase(found);
  return sum;
}

void GradientsAside::wait_for_first() {
  under_way_.front().done.block(under_way_.front().waits);
  under_way_.pop_front();
}

}  // namespace adaact
