#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include <adaact/moments/moments.h>
#include <adaact/observe/observer.h>

namespace adaact {

/// What was observed for some rows of one weight since the last step.
struct PendingMoment {
  std::size_t weight = 0;  // index into LayerMap::parameters()
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  Moment moment;                    // (g, …); rows are split evenly among the g groups
  std::vector<std::size_t> biases;  // parameters that the operators named as bias
};

/// Adds up what is observed between two steps, so that micro-batches, a layer used twice and
/// recomputation all give what one large batch would.
class MomentAccumulator : public Listener {
 public:
  using Measure = std::function<Moment(const LayerUse&, const torch::Tensor&)>;
  using MayWait = std::function<bool(const LayerUse&, const torch::Tensor&)>;

  /// `measure` runs on the thread of the forward pass. It may return an undefined sum for a layer
  /// that needs to be seen but not measured (a frozen weight with a trained bias).
  ///
  /// Where `may_wait` says that `measure` is second_moment() and that the weight takes a gradient, inputs
  /// on a GPU are kept and measured together, in a few launches instead of a few for each layer. Only
  /// those that autograd keeps alive anyway, and refuses to go backward from where they were changed.
  ///
  /// `model` gives the names of weights, for errors.
  MomentAccumulator(LayerMap model, Measure measure, MayWait may_wait)
      : model_(std::move(model)), measure_(std::move(measure)), may_wait_(std::move(may_wait)) {}

  void on_input(const LayerUse& use, const torch::Tensor& input) override;
  bool sums_squares() const override { return static_cast<bool>(may_wait_); }
  /// The moment of an input that was measured elsewhere.
  void add(const LayerUse& use, Moment moment);

  /// Hands over what has been added up and starts anew.
  std::vector<PendingMoment> take();
  /// The same without measuring what waits.
  void discard();

 private:
  struct Waiting {
    LayerUse use;
    torch::Tensor input;  // not defined where the squares that were offered are enough
    std::int64_t version = 0;
    c10::Stream stream;
    torch::Tensor squares;  // that were offered and are of use
    std::int64_t count = 0;
  };

  void measure_waiting();
  bool wait(const LayerUse& use, const torch::Tensor& input);

  const LayerMap model_;
  const Measure measure_;
  const MayWait may_wait_;
  std::mutex mutex_;
  std::vector<PendingMoment> pending_;
  std::vector<Waiting> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace adaact
