// One optimizer of the registry over the parameters of a Python model, which are the same tensors here.

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <adaact/optim/adaact.h>
#include <adaact/optim/factored_optimizer.h>
#include <adaact/optim/libtorch.h>
#include <adaact/optim/registry.h>
#include <adaact/optim/sam.h>

#include "binding.h"
#include "communicator.h"
#include "io/error_text.h"
#include "optim/base/param_state.h"

namespace adaact::python {
namespace {

using Group = std::pair<std::vector<torch::Tensor>, std::string>;  // parameters and options, JSON
using Entries = std::map<std::string, std::map<std::string, torch::Tensor>>;
using Counters = std::map<std::string, std::int64_t>;

/// What is wrong with an argument of Python's is a ValueError there.
template <typename Call>
auto checking_arguments(Call&& call) {
  try {
    return in_library(call);
  } catch (const c10::TypeError&) {
    throw;
  } catch (const c10::Error& error) {
    throw py::value_error(error_text(error));
  }
}

class CoreOptimizer {
 public:
  CoreOptimizer(const std::string& name, const std::vector<Layer>& layers,
                const std::vector<Group>& groups, const std::string& options,
                std::vector<torch::Tensor> buffers) {
    const auto map = layer_map_of(layers);
    std::vector<OptionGroup> option_groups;
    option_groups.reserve(groups.size());
    for (const auto& [parameters, of_group] : groups) {
      option_groups.push_back({parameters, of_group});
    }
    optimizer_ = checking_arguments(
        [&] { return make_optimizer(name, map, option_groups, options, std::move(buffers)); });
  }
  ~CoreOptimizer() {
    const py::gil_scoped_release released;  // the communicator and training flags take it
    optimizer_.reset();
  }
  CoreOptimizer(const CoreOptimizer&) = delete;
  CoreOptimizer& operator=(const CoreOptimizer&) = delete;

  void step(const std::optional<py::function>& closure) {
    torch::optim::Optimizer::LossClosure call;
    if (closure) {
      call = [&closure] {
        const py::gil_scoped_acquire gil;
        (*closure)();
        return torch::Tensor();
      };
    }
    in_library([&] { return optimizer_->step(call); });
  }

  std::string options(std::size_t group) const { return group_options(*optimizer_, group); }
  void change_options(std::size_t group, const std::string& options) {
    checking_arguments([&] {
      change_group_options(*optimizer_, group, options);
      return true;
    });
  }
  void set_learning_rate(std::size_t group, double rate) {
    base().param_groups()[group].options().set_lr(rate);
  }
  void add_group(const std::vector<torch::Tensor>& parameters, const std::string& options) {
    checking_arguments([&] {
      add_option_group(*optimizer_, {parameters, options});
      return true;
    });
  }

  std::int64_t steps() const {
    return of_base([](const auto& optimizer) { return optimizer.steps(); });
  }
  std::int64_t skipped_steps() const {
    if (const auto* sam = dynamic_cast<const Sam*>(optimizer_.get())) return sam->skipped_steps();
    return of_base([](const auto& optimizer) { return optimizer.skipped_steps(); });
  }

  std::pair<Entries, Counters> export_state() const {
    auto state = in_library([&] { return named().export_state(); });
    return {std::move(state.entries), std::move(state.counters)};
  }
  /// Options are the groups' own, changed before.
  void import_state(const Entries& entries, const Counters& counters) {
    in_library([&] {
      auto state = named().export_state();
      state.entries = entries;
      for (const auto& [name, count] : counters) state.counters[name] = count;
      named().import_state(state, "state_dict");
      return true;
    });
  }
  void save(const std::string& path) {
    in_library([&] {
      named().named_state().save(path);
      return true;
    });
  }
  void load(const std::string& path) {
    in_library([&] {
      named().named_state().load(path);
      return true;
    });
  }

  /// What coverage() says of each parameter; nothing for an optimizer that observes nothing.
  std::optional<std::vector<std::tuple<std::string, bool, std::string>>> coverage() const {
    const auto* observing = this->observing();
    if (observing == nullptr) return std::nullopt;
    std::vector<std::tuple<std::string, bool, std::string>> all;
    for (const auto& each : observing->coverage()) {
      all.emplace_back(each.name, each.observed, each.reason);
    }
    return all;
  }

  void pause() {
    if (auto* observing = this->observing()) pauses_.push_back(observing->pause_observation());
  }
  void resume() {
    if (!pauses_.empty()) pauses_.pop_back();
  }
  void discard_observations() {
    if (auto* observing = this->observing()) observing->discard_observations();
  }
  void observe(const torch::Tensor& weight, const torch::Tensor& input,
               const std::optional<torch::Tensor>& output) {
    TORCH_CHECK_VALUE(observing() != nullptr, "adaact: this optimizer observes nothing");
    checking_arguments([&] {
      observing()->observe(weight, input, Geometry::linear(), output.value_or(torch::Tensor()));
      return true;
    });
  }
  /// Sums that somebody else has measured. False where this optimizer takes none.
  bool takes_sums() const { return dynamic_cast<const AdaAct*>(&base()) != nullptr; }
  void add_sum(const torch::Tensor& weight, const torch::Tensor& sum, std::int64_t count,
               std::int64_t row_begin, std::int64_t row_end) {
    dynamic_cast<AdaAct&>(base()).add_observed(weight, {sum, count}, row_begin, row_end);
  }

  void watch(std::vector<torch::Tensor> weights) {
    watched_ = std::move(weights);
    observations_.assign(watched_.size(), 0);
    note_observations();
  }
  /// Tells of each watched weight whether it was observed since this was asked last.
  std::vector<bool> note_observations() {
    std::vector<bool> observed;
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      const auto now = observations_of(watched_[i]);
      observed.push_back(now != std::exchange(observations_[i], now));
    }
    return observed;
  }

  std::optional<torch::Tensor> second_moment(const torch::Tensor& weight) const {
    const auto* adaact = dynamic_cast<const AdaAct*>(&base());
    TORCH_CHECK_VALUE(adaact != nullptr, "adaact: this optimizer has no second moments of inputs");
    const auto moment = checking_arguments([&] { return adaact->second_moment(weight); });
    return moment.defined() ? std::optional<torch::Tensor>(moment) : std::nullopt;
  }

  void share(const std::shared_ptr<Communicator>& ranks, bool share_factors) {
    in_library([&] {
      share_statistics(*optimizer_, ranks, share_factors ? ShareFactors::Yes : ShareFactors::No);
      return true;
    });
  }

 private:
  torch::optim::Optimizer& base() const {
    auto* sam = dynamic_cast<Sam*>(optimizer_.get());
    return sam == nullptr ? *optimizer_ : sam->base();
  }
  ObservingOptimizer* observing() const { return dynamic_cast<ObservingOptimizer*>(&base()); }
  std::int64_t observations_of(const torch::Tensor& weight) const {
    std::int64_t observations = 0;
    if (dynamic_cast<const FactoredOptimizer*>(&base()) != nullptr) {
      const auto* state = find_param_state<FactoredParamState>(base().state(), weight);
      if (state == nullptr) return observations;
      for (const auto& factors : state->factors()) observations += factors.updates;
      return observations;
    }
    const auto* state = find_param_state<AdaActParamState>(base().state(), weight);
    if (state == nullptr) return observations;
    for (const auto& segment : state->moments().segments) observations += segment.observations;
    return observations;
  }
  HasNamedState& named() const { return dynamic_cast<HasNamedState&>(*optimizer_); }
  template <typename Call>
  std::int64_t of_base(Call&& call) const {
    const auto* optimizer = &base();
    if (const auto* sgd = dynamic_cast<const SGD*>(optimizer)) return call(*sgd);
    if (const auto* adam = dynamic_cast<const Adam*>(optimizer)) return call(*adam);
    if (const auto* adamw = dynamic_cast<const AdamW*>(optimizer)) return call(*adamw);
    return call(dynamic_cast<const NamedOptimizer&>(*optimizer));
  }

  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<ObservationPause> pauses_;
  std::vector<torch::Tensor> watched_;
  std::vector<std::int64_t> observations_;  // of each of them
};

}  // namespace

void register_optimizer(py::module_& module) {
  py::class_<CoreOptimizer>(module, "Optimizer")
      .def(py::init<const std::string&, const std::vector<Layer>&, const std::vector<Group>&,
                    const std::string&, std::vector<torch::Tensor>>())
      .def("step", &CoreOptimizer::step, py::arg("closure") = py::none())
      .def("options", &CoreOptimizer::options)
      .def("change_options", &CoreOptimizer::change_options)
      .def("set_learning_rate", &CoreOptimizer::set_learning_rate)
      .def("add_group", &CoreOptimizer::add_group)
      .def("steps", &CoreOptimizer::steps)
      .def("skipped_steps", &CoreOptimizer::skipped_steps)
      .def("export_state", &CoreOptimizer::export_state)
      .def("import_state", &CoreOptimizer::import_state)
      .def("save", &CoreOptimizer::save)
      .def("load", &CoreOptimizer::load)
      .def("coverage", &CoreOptimizer::coverage)
      .def("pause", &CoreOptimizer::pause)
      .def("resume", &CoreOptimizer::resume)
      .def("discard_observations", &CoreOptimizer::discard_observations)
      .def("observe", &CoreOptimizer::observe, py::arg("weight"), py::arg("input"),
           py::arg("output") = py::none())
      .def("takes_sums", &CoreOptimizer::takes_sums)
      .def("add_sum", &CoreOptimizer::add_sum, py::arg("weight"), py::arg("sum"), py::arg("count"),
           py::arg("row_begin") = 0, py::arg("row_end") = -1)
      .def("watch", &CoreOptimizer::watch)
      .def("note_observations", &CoreOptimizer::note_observations)
      .def("second_moment", &CoreOptimizer::second_moment)
      .def("share", &CoreOptimizer::share);
}

}  // namespace adaact::python
