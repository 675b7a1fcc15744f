#include "moments/accumulator.h"

#include <algorithm>
#include <utility>

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "moments/offered_squares.h"
#include "moments/second_moments_cuda.h"

namespace adaact {
namespace {

/// More would be held beyond the backward pass, in which autograd lets go of them one by one.
constexpr std::size_t kMostWaitingBytes = std::size_t{256} << 20;

/// Inputs that have together up to so many bytes are read whole although their borders would do: other layers' are, in
/// the same launch, and one for borders takes longer than it saves (of ResNet-20's step on an H200 25 µs instead of 21).
constexpr std::size_t kFewBytes = std::size_t{64} << 20;

/// Whether autograd, too, needs the input as it is until the backward pass is done. Not what the user made,
/// who may fill the same memory with the next batch, and not what autocast replaces by a copy.
bool is_kept_by_autograd(const LayerUse& use, const torch::Tensor& input) {
  const bool is_cast = input.scalar_type() == torch::kFloat &&
                       c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::AutocastCUDA);
  return use.input_is_intermediate && !is_cast;
}

/// Without a header of CUDA, which not every LibTorch has.
c10::Stream current_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

bool MomentAccumulator::wait(const LayerUse& use, const torch::Tensor& input) {
  if (!input.is_cuda() || !is_kept_by_autograd(use, input)) return false;
  if (!may_wait_ || !may_wait_(use, input)) return false;
  const auto stream = current_stream(input.device());
  bool full = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // What another thread enqueued may not be done yet when this one measures.
    if (!waiting_.empty() && waiting_.front().stream != stream) return false;
    const auto rest = still_to_read(input, use.geometry);
    auto squares = rest != StillToRead::Everything ? offered_squares(input) : torch::Tensor();
    if (squares.defined() && rest == StillToRead::Nothing) {
      const auto count = input.numel() / squares.size(1);
      waiting_.push_back({use, {}, 0, stream, std::move(squares), count});
      return true;
    }
    waiting_.push_back({use, input, input._version(), stream, std::move(squares), 0});
    waiting_bytes_ += input.nbytes();
    full = waiting_bytes_ > kMostWaitingBytes;
  }
  if (full) measure_waiting();
  return true;
}

void MomentAccumulator::measure_waiting() {
  std::vector<Waiting> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting = std::exchange(waiting_, {});
    waiting_bytes_ = 0;
  }
  if (waiting.empty()) return;
  std::size_t bordered_bytes = 0;
  for (const auto& each : waiting) {
    if (each.input.defined() && each.squares.defined()) bordered_bytes += each.input.nbytes();
  }
  std::vector<MomentInput> inputs;
  for (auto& each : waiting) {
    if (each.input.defined() && bordered_bytes <= kFewBytes) each.squares = torch::Tensor();
    TORCH_CHECK(!each.input.defined() || each.input._version() == each.version,
                "adaact: the input, of shape ", each.input.sizes(), ", of the layer with weight '",
                model_.parameters()[each.use.weight].name,
                "' was changed in place after the layer had read it, expected unchanged until the "
                "optimizer's step; give the layer a copy");
    inputs.push_back({each.input, each.use.geometry, each.squares, each.count});
  }
  auto moments = second_moments_cuda(inputs);
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    add(waiting[i].use, std::move(moments[i]));
  }
}

void MomentAccumulator::on_input(const LayerUse& use, const torch::Tensor& input) {
  if (!wait(use, input)) add(use, measure_(use, input));
}

void MomentAccumulator::add(const LayerUse& use, Moment moment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto known = std::find_if(pending_.begin(), pending_.end(), [&](const PendingMoment& pending) {
    return pending.weight == use.weight && pending.row_begin == use.row_begin &&
           pending.row_end == use.row_end && pending.moment.sum.defined() == moment.sum.defined() &&
           (!moment.sum.defined() || pending.moment.sum.sizes() == moment.sum.sizes());
  });
  if (known == pending_.end()) {
    known = pending_.insert(known, {use.weight, use.row_begin, use.row_end, std::move(moment), {}});
  } else {
    // A model moved between two micro-batches: what was summed follows it.
    if (moment.sum.defined()) {
      known->moment.sum = known->moment.sum.to(moment.sum.options()).add_(moment.sum);
    }
    known->moment.count += moment.count;
  }
  if (use.bias && std::count(known->biases.begin(), known->biases.end(), *use.bias) == 0) {
    known->biases.push_back(*use.bias);
  }
}

void MomentAccumulator::discard() {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.clear();
  waiting_bytes_ = 0;
  pending_.clear();
}

std::vector<PendingMoment> MomentAccumulator::take() {
  measure_waiting();
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(pending_, {});
}

}  // namespace adaact
