#include <adaact/observe/observer.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include "observe/listener_scope.h"
#include "observe/operators.h"
#include "observe/stand_ins.h"
#include "observe/torchscript.h"
#include "observe/wants_squares.h"

namespace adaact {
namespace {

struct RowRange {
  std::int64_t begin;
  std::int64_t end;
};

/// A weight read as a matrix with a row for each output.
struct MatrixForm {
  std::int64_t rows;
  std::int64_t features;
  std::int64_t row_stride;
};

/// Nothing where the features of a row do not lie one after the other.
std::optional<MatrixForm> matrix_form(const torch::Tensor& weight, bool transposed) {
  if (transposed) {
    if (weight.size(0) > 1 && weight.stride(0) != 1) return std::nullopt;
    return MatrixForm{weight.size(1), weight.size(0), weight.stride(1)};
  }
  std::int64_t features = 1;
  for (auto dim = weight.dim() - 1; dim > 0; --dim) {
    if (weight.size(dim) > 1 && weight.stride(dim) != features) return std::nullopt;
    features *= weight.size(dim);
  }
  return MatrixForm{weight.size(0), features, weight.stride(0)};
}

/// Whether the operand's rows are laid out as the parameter's. Told by strides, so that x · W with a square W
/// is not taken for x · Wᵀ.
bool has_rows_of(const torch::Tensor& parameter, const torch::Tensor& operand, bool transposed) {
  const auto dims = parameter.dim();
  if (operand.dim() == dims) {
    const auto operand_dim = [&](std::int64_t dim) { return transposed ? dims - 1 - dim : dim; };
    for (std::int64_t dim = 0; dim < dims; ++dim) {
      const auto size = operand.size(operand_dim(dim));
      if (dim > 0 && size != parameter.size(dim)) return false;
      if (size > 1 && operand.stride(operand_dim(dim)) != parameter.stride(dim)) return false;
    }
    return true;
  }
  // A convolution's weight that a linear layer reads through view(), or the other way round.
  const auto own = matrix_form(parameter, /*transposed=*/false);
  const auto used = matrix_form(operand, transposed);
  return own && used && own->features == used->features &&
         (used->rows == 1 || own->row_stride == used->row_stride);
}

/// The rows of `parameter` that `operand` consists of, if it is the parameter or a run of its rows
/// (transposed, if so asked) and nothing else.
std::optional<RowRange> rows_of(const torch::Tensor& parameter, const torch::Tensor& operand,
                                bool transposed) {
  if (parameter.dim() < 2 || operand.dim() < 2 || (transposed && operand.dim() != 2)) {
    return std::nullopt;
  }
  if (!parameter.has_storage() || !operand.has_storage() || !operand.is_alias_of(parameter) ||
      operand.scalar_type() != parameter.scalar_type() ||
      !has_rows_of(parameter, operand, transposed)) {
    return std::nullopt;
  }
  const auto rows = operand.size(transposed ? 1 : 0);
  if (rows == 0) return std::nullopt;
  const auto offset = operand.storage_offset() - parameter.storage_offset();
  const auto row_stride = parameter.stride(0);
  if (offset == 0 && rows <= parameter.size(0)) return RowRange{0, rows};
  if (offset < 0 || row_stride <= 0 || offset % row_stride != 0) return std::nullopt;
  const auto begin = offset / row_stride;
  if (begin + rows > parameter.size(0)) return std::nullopt;
  return RowRange{begin, begin + rows};
}

/// What torch::func's transforms, vmap and grad, hand to operators stands for other tensors and has no memory.
bool is_inside_transform(const torch::Tensor& input) {
  return input.key_set().has_any(c10::DispatchKeySet(
      {c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper}));
}

}  // namespace

class Observer::Core {
 public:
  Core(LayerMap layer_map, std::shared_ptr<Listener> its_listener)
      : map(std::move(layer_map)),
        listener(std::move(its_listener)),
        refused_(map.parameters().size()),
        multiplied_by_rows_(map.parameters().size()) {
    for (std::size_t i = 0; i < map.parameters().size(); ++i) {
      const auto& tensor = map.parameters()[i].tensor;
      by_identity_.emplace(tensor.unsafeGetTensorImpl(), i);
      if (tensor.is_view()) by_base_.emplace(tensor._base().unsafeGetTensorImpl(), i);
    }
    owners_ = owners_of(map);
  }

  /// Finds the layer of a weight by the identity of the tensor, of what it is a view of, or of the buffer
  /// that both it and the parameter are views of.
  std::optional<LayerUse> match_identity(const LayerOperator& layer) const {
    const auto& operand = *layer.weight;
    if (auto use = use_of_known(operand.unsafeGetTensorImpl(), layer)) return use;
    if (!operand.is_view()) return std::nullopt;
    const auto* base = operand._base().unsafeGetTensorImpl();
    if (auto use = use_of_known(base, layer)) return use;
    const auto [first, last] = by_base_.equal_range(base);
    for (auto found = first; found != last; ++found) {
      if (auto use = use_of(found->second, layer)) return use;
    }
    return std::nullopt;
  }

  /// Finds the layer of a weight by storage: TorchScript's arrive detached.
  std::optional<LayerUse> match_storage(const LayerOperator& layer) const {
    for (std::size_t i = 0; i < map.parameters().size(); ++i) {
      if (auto use = use_of(i, layer)) return use;
    }
    return std::nullopt;
  }

  /// Whether this is a parameter, or made of parameters and nothing else: no activation, whatever it is
  /// multiplied by.
  bool is_made_of_parameters(const torch::Tensor& input) const {
    if (by_identity_.count(input.unsafeGetTensorImpl()) > 0) return true;
    if (input.requires_grad()) {
      return comes_from_leaves_alone(input, [this](const torch::Tensor& leaf) {
        return by_identity_.count(leaf.unsafeGetTensorImpl()) > 0;
      });
    }
    const auto& parameters = map.parameters();
    return input.has_storage() &&
           std::any_of(parameters.begin(), parameters.end(), [&](const NamedParameter& parameter) {
             return parameter.tensor.has_storage() && parameter.tensor.is_alias_of(input);
           });
  }

  bool knows(const torch::Tensor& parameter) const {
    return by_identity_.count(parameter.unsafeGetTensorImpl()) > 0;
  }

  bool is_paused() const { return pauses->load(std::memory_order_relaxed) > 0; }

  /// Whether one of the layers that have the parameter is in training. Where several share it, nobody knows which one
  /// is being used.
  bool is_active(std::size_t parameter) const {
    if (is_paused()) return false;
    const auto& owners = owners_[parameter];
    return std::any_of(owners.begin(), owners.end(),
                       [this](std::size_t owner) { return map.layers()[owner].is_training(); });
  }

  /// Whether this input of the weight counts. One that is made of parameters is noted.
  bool takes(std::size_t weight, const torch::Tensor& input) noexcept {
    bool taken = false;  // also where the question cannot be answered
    guarded([&] {
      if (!is_active(weight) || is_inside_transform(input)) return;
      taken = !is_made_of_parameters(input);
      if (!taken) refused_[weight].store(true, std::memory_order_relaxed);
    });
    return taken;
  }
  bool has_refused_input_of(std::size_t weight) const {
    return refused_[weight].load(std::memory_order_relaxed);
  }

  /// Notes a product that is no layer's, for the parameter itself in the place of a layer's Wᵀ: x · W.
  void note_product_by_rows(const LayerOperator& layer) noexcept {
    if (!layer.weight_is_transposed) return;
    const auto found = by_identity_.find(layer.weight->unsafeGetTensorImpl());
    if (found == by_identity_.end() || is_multiplied_by_rows(found->second)) return;
    guarded([&] {
      const auto weight = found->second;
      if (!is_active(weight) || is_inside_transform(*layer.input)) return;
      if (layer.weight->dim() != 2 || is_made_of_parameters(*layer.input)) return;
      multiplied_by_rows_[weight].store(true, std::memory_order_relaxed);
    });
  }
  bool is_multiplied_by_rows(std::size_t weight) const {
    return multiplied_by_rows_[weight].load(std::memory_order_relaxed);
  }

  template <typename Call>
  void guarded(Call&& call) noexcept {
    try {
      ListenerScope scope;
      call();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  std::exception_ptr take_failure() {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    return std::exchange(failure_, nullptr);
  }

  const LayerMap map;
  const std::shared_ptr<Listener> listener;
  const std::shared_ptr<std::atomic<int>> pauses = std::make_shared<std::atomic<int>>(0);

 private:
  /// The layers that have a parameter, for every parameter. Of a weight that a layer shares with, say, an embedding,
  /// these are only those that may multiply an input by it.
  static std::vector<std::vector<std::size_t>> owners_of(const LayerMap& map) {
    std::vector<std::vector<std::size_t>> owners(map.parameters().size());
    for (std::size_t layer = 0; layer < map.layers().size(); ++layer) {
      for (const auto parameter : map.layers()[layer].parameters) {
        const auto kind = map.layers()[layer].kind;
        const bool may_be_its_weight = is_observable(kind) || kind == LayerKind::Other;
        if (may_be_its_weight || !map.parameters()[parameter].is_layer_weight)
          owners[parameter].push_back(layer);
      }
    }
    return owners;
  }

  std::optional<LayerUse> use_of_known(const c10::TensorImpl* identity,
                                       const LayerOperator& layer) const {
    const auto found = by_identity_.find(identity);
    return found == by_identity_.end() ? std::nullopt : use_of(found->second, layer);
  }

  std::optional<LayerUse> use_of(std::size_t parameter, const LayerOperator& layer) const {
    const auto rows =
        rows_of(map.parameters()[parameter].tensor, *layer.weight, layer.weight_is_transposed);
    if (!rows) return std::nullopt;
    LayerUse use;
    use.weight = parameter;
    use.row_begin = rows->begin;
    use.row_end = rows->end;
    if (layer.bias != nullptr) use.bias = find_bias(*layer.bias, rows->end - rows->begin);
    return use;
  }

  /// A parameter in the bias argument is a bias only if it has one number per row: addmm also merges
  /// low-rank updates into weights.
  std::optional<std::size_t> find_bias(const torch::Tensor& bias, std::int64_t rows) const {
    if (bias.dim() != 1 || bias.numel() != rows) return std::nullopt;
    const auto found = by_identity_.find(bias.unsafeGetTensorImpl());
    if (found == by_identity_.end()) return std::nullopt;
    return found->second;
  }

  std::unordered_map<const c10::TensorImpl*, std::size_t> by_identity_;
  std::unordered_multimap<const c10::TensorImpl*, std::size_t> by_base_;  // those that are views
  std::vector<std::vector<std::size_t>> owners_;
  std::vector<std::atomic<bool>> refused_;  // by parameter: an input that is made of parameters
  std::vector<std::atomic<bool>> multiplied_by_rows_;  // by parameter: x · W in place of x · Wᵀ
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

namespace {

using Cores = std::vector<std::shared_ptr<Observer::Core>>;

/// All observers of the process. Readers take a snapshot, so an observer may come or go while other
/// threads run operators.
class Registry {
 public:
  static Registry& instance() {
    static auto* registry = new Registry;  // outlives every thread that may still run operators
    return *registry;
  }

  std::shared_ptr<const Cores> snapshot() const { return std::atomic_load(&cores_); }
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

  void add(std::shared_ptr<Observer::Core> core) {
    change([&](Cores& cores) { cores.push_back(std::move(core)); });
  }

  void remove(const Observer::Core* core) {
    change([&](Cores& cores) {
      for (auto it = cores.begin(); it != cores.end(); ++it) {
        if (it->get() == core) {
          cores.erase(it);
          return;
        }
      }
    });
  }

 private:
  template <typename Change>
  void change(Change&& apply) {
    const std::lock_guard<std::mutex> lock(writers_);
    auto next = std::make_shared<Cores>(*std::atomic_load(&cores_));
    apply(*next);
    count_.store(next->size(), std::memory_order_relaxed);
    std::atomic_store(&cores_, std::shared_ptr<const Cores>(std::move(next)));
  }

  std::mutex writers_;
  std::shared_ptr<const Cores> cores_ = std::make_shared<const Cores>();
  std::atomic<std::size_t> count_{0};
};

/// > 0 inside an operator that was counted already or whose inner operators are no layers.
thread_local int opaque_depth = 0;

/// Lives as long as its operator runs; holds what is told to the listeners once it has succeeded.
struct OperatorContext : at::ObserverContext {
  OperatorContext() { ++opaque_depth; }
  ~OperatorContext() override { --opaque_depth; }
  OperatorContext(const OperatorContext&) = delete;
  OperatorContext& operator=(const OperatorContext&) = delete;

  struct Use {
    std::shared_ptr<Observer::Core> core;
    LayerUse use;
  };
  std::vector<Use> uses;
  torch::Tensor input;
  bool weight_is_recorded = true;  // not detached
  Geometry geometry;
  std::exception_ptr geometry_failure;  // counts only if the operator itself finds no fault
};

/// Nodes that LibTorch generates ("MmBackward0") multiply gradients by weights and are no layers,
/// even when they are differentiated themselves. A user's own node may run a forward pass, as
/// checkpointing does, and is looked into.
bool is_generated_backward_node(std::string_view name) {
  constexpr std::string_view kSuffix = "Backward";
  const auto at = name.rfind(kSuffix);
  if (at == std::string_view::npos || at + kSuffix.size() >= name.size()) return false;
  for (const char digit : name.substr(at + kSuffix.size())) {
    if (std::isdigit(static_cast<unsigned char>(digit)) == 0) return false;
  }
  return true;
}

/// What becomes of the gradient of a weight in a backward pass.
enum class WeightGradient : std::uint8_t { Added, Returned, NotMade };

/// What the backward pass under way does with the gradient; nothing where there is none.
std::optional<WeightGradient> fate_in_pass_under_way(const torch::Tensor& weight) {
  const auto* asked_for = torch::autograd::get_current_graph_task_exec_info();
  if (asked_for == nullptr) return std::nullopt;
  if (asked_for->empty() || !weight.is_leaf()) return WeightGradient::Added;  // all gradients are
  const auto node = torch::autograd::impl::try_get_grad_accumulator(weight);
  const auto found = asked_for->find(node.get());
  if (found == asked_for->end() || !found->second.should_execute()) return WeightGradient::NotMade;
  return found->second.needed_ ? WeightGradient::Added : WeightGradient::Returned;
}

using Match = std::optional<LayerUse> (Observer::Core::*)(const LayerOperator&) const;

std::vector<OperatorContext::Use> find_uses(const Cores& cores, const LayerOperator& layer,
                                            Match match) {
  std::vector<OperatorContext::Use> uses;
  for (const auto& core : cores) {
    if (auto use = ((*core).*match)(layer)) uses.push_back({core, std::move(*use)});
  }
  return uses;
}

std::unique_ptr<at::ObserverContext> on_layer_operator(LayerOperator layer) {
  // A copy of a parameter is observed as the parameter.
  const auto weight = StandIns::original_of(*layer.weight);
  const auto bias =
      layer.bias != nullptr ? StandIns::original_of(*layer.bias) : StandIns::Original();
  const bool weight_is_recorded =
      layer.weight->requires_grad() || weight.gradient == StandIns::Gradient::BySomebodyElse;
  if (weight.parameter.defined()) layer.weight = &weight.parameter;
  if (bias.parameter.defined()) layer.bias = &bias.parameter;

  const auto cores = Registry::instance().snapshot();
  auto uses = find_uses(*cores, layer, &Observer::Core::match_identity);
  if (uses.empty() && is_run_by_torchscript()) {
    uses = find_uses(*cores, layer, &Observer::Core::match_storage);
  }
  if (uses.empty()) {
    for (const auto& core : *cores) core->note_product_by_rows(layer);
    return nullptr;  // an operator further inside may still be one
  }

  auto context = std::make_unique<OperatorContext>();
  context->input = *layer.input;
  context->weight_is_recorded = weight_is_recorded;
  for (auto& found : uses) {
    if (found.core->takes(found.use.weight, *layer.input)) {
      context->uses.push_back(std::move(found));
    }
  }
  try {
    context->geometry = layer.read_geometry(layer);
  } catch (...) {
    context->geometry_failure = std::current_exception();
  }
  return context;
}

std::unique_ptr<at::ObserverContext> on_operator_start(const at::RecordFunction& record) {
  if (opaque_depth > 0 || !at::GradMode::is_enabled() || Registry::instance().empty()) {
    return nullptr;
  }
  if (record.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    if (is_generated_backward_node(record.name())) return std::make_unique<OperatorContext>();
    return nullptr;
  }
  LayerOperator layer;
  // TorchScript's interpreter passes its whole stack, of which the arguments are the end.
  const auto stack = record.inputs();
  const auto count = std::min<std::size_t>(record.num_inputs(), stack.size());
  switch (classify_operator(record.name(), stack.slice(stack.size() - count), layer)) {
    case OperatorClass::Layer:
      return on_layer_operator(layer);
    case OperatorClass::Opaque:
      return std::make_unique<OperatorContext>();
    case OperatorClass::Irrelevant:
      break;
  }
  return nullptr;
}

void hook_output_gradient(const std::shared_ptr<Observer::Core>& observer, const LayerUse& use,
                          const torch::Tensor& input, const torch::Tensor& output) {
  auto listen = observer->listener->listen_to_output(use, input);
  if (!listen) return;
  std::weak_ptr<Observer::Core> weak_core = observer;
  const auto weight = observer->map.parameters()[use.weight].tensor;
  // Where checkpointing recomputes this use, this is what the pass around it does with the gradient it is given.
  const auto around = fate_in_pass_under_way(weight);
  output.register_hook([weak_core, weight, around, listen](const torch::Tensor& gradient) {
    const auto core = weak_core.lock();
    // A user's own backward node may leave a gradient undefined: it is zero.
    if (core == nullptr || !gradient.defined() || core->is_paused()) return;
    auto fate = fate_in_pass_under_way(weight);
    if (fate == WeightGradient::Returned && around) fate = around;
    if (fate == WeightGradient::NotMade) return;
    core->guarded([&] {
      listen({gradient.detach(), fate != WeightGradient::Returned,
              torch::autograd::get_current_graph_task_keep_graph()});
    });
  });
}

void on_operator_end(const at::RecordFunction& record, at::ObserverContext* context) {
  auto* layer = static_cast<OperatorContext*>(context);
  // No outputs: the operator threw, and what went into it is no observation.
  if (layer == nullptr || layer->uses.empty() || record.outputs().empty()) return;
  for (auto& observed : layer->uses) {
    auto& core = *observed.core;
    core.guarded([&] {
      if (layer->geometry_failure) std::rethrow_exception(layer->geometry_failure);
      observed.use.geometry = layer->geometry;
      observed.use.input_is_intermediate = layer->input.requires_grad() && !layer->input.is_leaf();
      const auto input = layer->input.detach();
      core.listener->on_input(observed.use, input);
      const auto output = record.outputs().back().toTensor();
      if (layer->weight_is_recorded && output.requires_grad()) {
        hook_output_gradient(observed.core, observed.use, input, output);
      } else {
        core.listener->on_unrecorded_use(observed.use);
      }
    });
  }
}

void install_callback() {
  static std::once_flag once;
  std::call_once(once, [] {
    at::addGlobalCallback(
        at::RecordFunctionCallback(&on_operator_start, &on_operator_end)
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  });
}

class CountingListener : public Listener {
 public:
  void on_input(const LayerUse& /*use*/, const torch::Tensor& /*input*/) override { ++count; }
  std::atomic<int> count{0};
};

/// Runs two tiny layers past a listener. A build of LibTorch without operator records, or one whose
/// record layout differs from what this library was compiled for, fails here and not by training
/// silently as plain SGD.
void check_that_operators_are_seen() {
  const auto linear = torch::ones({1, 1}, torch::kFloat).requires_grad_();
  const auto convolution = torch::ones({1, 1, 1}, torch::kFloat).requires_grad_();
  auto listener = std::make_shared<CountingListener>();
  auto core = std::make_shared<Observer::Core>(
      LayerMap(NamedTensors{{"linear", linear}, {"convolution", convolution}}), listener);
  Registry::instance().add(core);
  try {
    const at::AutoGradMode with_gradients(true);
    torch::linear(torch::ones({1, 1}, torch::kFloat), linear);
    torch::conv1d(torch::ones({1, 1, 1}, torch::kFloat), convolution);
  } catch (...) {
    Registry::instance().remove(core.get());
    throw;
  }
  Registry::instance().remove(core.get());
  TORCH_CHECK(listener->count == 2,
              "adaact: this program cannot observe its layers: of 2 test operators ",
              listener->count.load(),
              " reached the observer. LibTorch must be built with operator records "
              "(at::RecordFunction) and they must be enabled on this thread "
              "(at::enableRecordFunction(true)).");
}

}  // namespace

bool has_listener_for_squares(const torch::Tensor& parameter) {
  if (Registry::instance().empty()) return false;
  const auto cores = Registry::instance().snapshot();
  return std::any_of(cores->begin(), cores->end(), [&](const auto& core) {
    return core->listener->sums_squares() && !core->is_paused() && core->knows(parameter);
  });
}

ObservationPause::ObservationPause(std::shared_ptr<std::atomic<int>> holders)
    : holders_(std::move(holders)) {
  ++*holders_;
}

ObservationPause::~ObservationPause() {
  if (holders_) --*holders_;
}

Observer::Observer(LayerMap map, std::shared_ptr<Listener> listener)
    : core_(std::make_shared<Core>(std::move(map), std::move(listener))) {
  install_callback();
  check_that_operators_are_seen();
  Registry::instance().add(core_);
}

Observer::~Observer() {
  if (core_) Registry::instance().remove(core_.get());
}

Observer::Observer(Observer&&) noexcept = default;

Observer& Observer::operator=(Observer&& other) noexcept {
  std::swap(core_, other.core_);
  return *this;
}

const LayerMap& Observer::map() const noexcept { return core_->map; }

void Observer::observe(const torch::Tensor& weight, const torch::Tensor& input,
                       const Geometry& geometry, const torch::Tensor& output) {
  const auto index = core_->map.find(weight);
  TORCH_CHECK(index, "adaact: observe() was given a weight that is no parameter of this model");
  if (!at::GradMode::is_enabled() || !core_->is_active(*index)) return;
  LayerUse use;
  use.weight = *index;
  use.row_end = weight.size(0);
  use.geometry = geometry;
  ListenerScope scope;
  core_->listener->on_input(use, input.detach());
  if (!output.defined()) return;
  if (output.requires_grad()) {
    hook_output_gradient(core_, use, input.detach(), output);
  } else {
    core_->listener->on_unrecorded_use(use);
  }
}

ObservationPause Observer::pause() const { return ObservationPause(core_->pauses); }

bool Observer::has_refused_input_of(std::size_t weight) const {
  return core_->has_refused_input_of(weight);
}
bool Observer::is_multiplied_by_rows(std::size_t weight) const {
  return core_->is_multiplied_by_rows(weight);
}

void Observer::discard_failure() { core_->take_failure(); }

void Observer::rethrow_failure() {
  if (const auto failure = core_->take_failure()) std::rethrow_exception(failure);
}

}  // namespace adaact
