#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <adaact/observe/geometry.h>
#include <adaact/observe/layer_map.h>
#include <torch/types.h>

namespace adaact {

/// One use of a weight as a layer's weight: rows [row_begin, row_end) of parameter `weight` were
/// multiplied by an input with this geometry. The rows are all of them but for packed projections.
struct LayerUse {
  std::size_t weight = 0;  // index into LayerMap::parameters()
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  Geometry geometry;
  std::optional<std::size_t> bias;     // the operator's bias argument, where it is a parameter
  bool input_is_intermediate = false;  // made by operators that autograd recorded, not by the user
};

/// What a backward pass brings to the output of a use.
struct OutputGradient {
  torch::Tensor gradient;
  bool is_added = true;  // the pass adds to the weight's grad(); torch::autograd::grad returns it
  bool graph_is_kept = false;  // another pass may come this way
};
using OutputGradientListener = std::function<void(const OutputGradient&)>;

/// Receives what flows through the layers of one model. Calls come from the threads that run the
/// forward and backward passes; an exception is kept and thrown by Observer::rethrow_failure().
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_input(const LayerUse& use, const torch::Tensor& input) = 0;
  /// Asked once per use whose weight and output are differentiated, after on_input(). What is returned, if
  /// anything, lives as long as autograd's graph and is called in every backward pass that makes a
  /// gradient of the weight from this use: not where only the gradient of a model's input is asked for.
  virtual OutputGradientListener listen_to_output(const LayerUse& /*use*/,
                                                  const torch::Tensor& /*input*/) {
    return nullptr;
  }
  /// Called in place of listen_to_output() where autograd does not record the use: its weight is detached, or
  /// TorchScript differentiates the graph that it is part of by itself.
  virtual void on_unrecorded_use(const LayerUse& /*use*/) {}
  /// Whether this listener sums the squares of inputs. Layers that know of it may do so while they write them.
  virtual bool sums_squares() const { return false; }
};

/// Observation stops while one of these lives.
class ObservationPause {
 public:
  explicit ObservationPause(std::shared_ptr<std::atomic<int>> holders);
  ~ObservationPause();
  ObservationPause(ObservationPause&&) noexcept = default;
  ObservationPause(const ObservationPause&) = delete;
  ObservationPause& operator=(const ObservationPause&) = delete;
  ObservationPause& operator=(ObservationPause&&) = delete;

 private:
  std::shared_ptr<std::atomic<int>> holders_;
};

/// Watches dispatched operators and tells its listener each time a weight of the map is used as a
/// layer's weight while gradients are recorded and its module (where known) is in training mode.
///
/// The model is not touched. All observers of a process share one at::RecordFunction callback that
/// is installed with the first and never removed, because LibTorch allows neither while operators
/// run on another thread. Throws where this build of LibTorch does not show operators to observers.
class Observer {
 public:
  Observer(LayerMap map, std::shared_ptr<Listener> listener);
  ~Observer();
  Observer(Observer&&) noexcept;
  Observer& operator=(Observer&&) noexcept;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  const LayerMap& map() const noexcept;

  /// Tells the listener about an input that the dispatcher does not show (a custom kernel).
  /// The same conditions hold: nothing happens without gradients, in evaluation mode or in a pause.
  /// With the layer's output, its gradient is reported too, to a listener that wants it.
  void observe(const torch::Tensor& weight, const torch::Tensor& input, const Geometry& geometry,
               const torch::Tensor& output = {});

  [[nodiscard]] ObservationPause pause() const;

  /// Whether this weight, by index into the map, was multiplied by something that is made of parameters alone,
  /// which is no use of a layer.
  bool has_refused_input_of(std::size_t weight) const;

  /// Whether this weight, by index into the map, was used as in x · W. There an input meets a row of it, in a layer's
  /// product x · Wᵀ a column, so that what is observed of layers does not fit.
  bool is_multiplied_by_rows(std::size_t weight) const;

  /// Throws the first exception a listener threw since the last call.
  void rethrow_failure();
  /// Forgets what a listener threw since the last call.
  void discard_failure();

  class Core;

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace adaact
