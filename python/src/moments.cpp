// Second moments of the inputs of a model's layers, by an observer that nobody's step needs.

#include <memory>
#include <optional>

#include <adaact/moments/moments.h>
#include <adaact/observe/observer.h>

#include "binding.h"
#include "moments/accumulator.h"

namespace adaact::python {
namespace {

class InputMoments {
 public:
  explicit InputMoments(const std::vector<Layer>& layers)
      : map_(layer_map_of(layers)),
        accumulator_(std::make_shared<MomentAccumulator>(
            map_,
            [](const LayerUse& use, const torch::Tensor& input) {
              return second_moment(input, use.geometry);
            },
            nullptr)) {}

  void start() { observer_ = std::make_unique<Observer>(map_, accumulator_); }
  void stop() {
    const auto observer = std::move(observer_);
    if (observer != nullptr) observer->rethrow_failure();
  }

  /// A run of a weight's rows that read the same input: the weight's name, where the run begins and ends, E[x²] of the
  /// input, and how many inputs that is the mean of.
  using Found = std::tuple<std::string, std::int64_t, std::int64_t, torch::Tensor, std::int64_t>;
  std::vector<Found> take() {
    std::vector<Found> all;
    for (const auto& pending : accumulator_->take()) {
      all.emplace_back(map_.parameters()[pending.weight].name, pending.row_begin, pending.row_end,
                       pending.moment.mean(), pending.moment.count);
    }
    return all;
  }

 private:
  LayerMap map_;
  std::shared_ptr<MomentAccumulator> accumulator_;
  std::unique_ptr<Observer> observer_;
};

}  // namespace

void register_moments(py::module_& module) {
  py::class_<InputMoments>(module, "InputMoments")
      .def(py::init<const std::vector<Layer>&>())
      .def("start", &InputMoments::start)
      .def("stop", &InputMoments::stop)
      .def("take", &InputMoments::take);
}

}  // namespace adaact::python
