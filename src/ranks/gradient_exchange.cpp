#include <adaact/ranks/gradient_exchange.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include "ranks/gradient_messages.h"

namespace adaact {
namespace {

using Clock = std::chrono::steady_clock;
using Reduction = GradientExchangeOptions::Reduction;
using TensorsByName = std::vector<std::pair<std::string, torch::Tensor>>;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

TensorsByName listed(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  TensorsByName list;
  for (const auto& tensor : tensors) list.emplace_back(tensor.key(), tensor.value());
  return list;
}

/// The same list with every tensor once: one that is tied to another keeps its first name.
TensorsByName each_named_once(const TensorsByName& tensors) {
  TensorsByName once;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) {
      once.emplace_back(name, tensor);
    }
  }
  return once;
}

}  // namespace

void GradientExchangeOptions::check() const {
  TORCH_CHECK(bucket_bytes > 0, "GradientExchangeOptions: bucket_bytes is ", bucket_bytes,
              ", expected more than 0");
}

class GradientExchange::State {
 public:
  State(const TensorsByName& named_parameters, std::shared_ptr<Communicator> ranks,
        std::shared_ptr<std::atomic<int>> holders, const GradientExchangeOptions& options)
      : ranks_(std::move(ranks)), holders_(std::move(holders)), reduction_(options.reduction) {
    std::ostringstream description;
    description << (reduction_ == Reduction::Mean ? "means" : "sums") << " in messages of at most "
                << options.bucket_bytes << " bytes\n";
    for (const auto& [name, tensor] : each_named_once(named_parameters)) {
      TORCH_CHECK(tensor.is_leaf(), "the gradient of ", name,
                  " cannot be exchanged: it is computed from other tensors, expected a parameter");
      if (tensor.requires_grad()) {
        parameters_.emplace_back(name, tensor);
        description << parameters_.back().description() << "\n";
      } else {
        frozen_.emplace_back(name, tensor);
        description << name << ", " << dtype_and_shape(tensor) << ", frozen\n";
      }
    }
    check_same_on_all_ranks(*ranks_, "the gradients to exchange", description.str());
    buckets_ = plan_gradient_buckets(parameters_, options.bucket_bytes);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      auto& parameter = parameters_[p];
      // A parameter does not keep what adds to its gradient alive.
      parameter.accumulator = torch::autograd::impl::grad_accumulator(parameter.tensor);
      parameter.hook = parameter.accumulator->add_post_hook(std::make_unique<Hook>(*this, p));
    }
  }

  ~State() {
    for (auto& parameter : parameters_) parameter.accumulator->del_post_hook(parameter.hook);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void finish() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, tensor] : frozen_) {
      TORCH_CHECK(!tensor.requires_grad(), "the parameter ", name,
                  " was frozen when the GradientExchange was made and is trained now; make a new "
                  "one on all ranks");
    }
    const auto entered = Clock::now();
    while (begun_ < buckets_.size()) begin_next();
    for (auto& bucket : buckets_) complete(bucket);
    const auto done = Clock::now();

    cost_ = GradientExchangeCost();
    for (auto& bucket : buckets_) {
      ++cost_.messages;
      cost_.bytes += static_cast<std::int64_t>(bucket.gradients.nbytes() + bucket.givers.nbytes());
      bucket.gradients.reset();
    }
    if (!buckets_.empty()) {
      cost_.seconds = seconds_between(first_begun_, done);
      cost_.seconds_waited = seconds_between(std::max(first_begun_, entered), done);
    }
    for (auto& parameter : parameters_) parameter.is_ready = false;
    begun_ = 0;
  }

  const GradientExchangeCost& cost() const { return cost_; }

 private:
  /// LibTorch calls it when a backward pass has added to the gradient of a parameter, or has come to it with nothing to
  /// add.
  class Hook : public torch::autograd::FunctionPostHook {
   public:
    Hook(State& state, std::size_t parameter) : state_(state), parameter_(parameter) {}
    torch::autograd::variable_list operator()(
        const torch::autograd::variable_list& outputs,
        const torch::autograd::variable_list& /*inputs*/) override {
      state_.on_gradient(parameter_);
      return outputs;
    }

   private:
    State& state_;
    const std::size_t parameter_;
  };

  void on_gradient(std::size_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& parameter = parameters_[index];
    TORCH_CHECK(
        parameter.bucket >= begun_, "a backward pass has added to the gradient of ", parameter.name,
        " after it was sent; call finish() and clear the gradients before the next pass, or where "
        "those of several passes are added up keep what hold() returns during all but the "
        "last");
    if (holders_->load() > 0) return;
    parameter.is_ready = true;
    while (begun_ < buckets_.size() && is_complete(buckets_[begun_])) begin_next();
  }

  bool is_complete(const GradientBucket& bucket) const {
    return std::all_of(bucket.parameters.begin(), bucket.parameters.end(), [&](std::size_t p) {
      return parameters_[p].is_ready || !parameters_[p].tensor.requires_grad();
    });
  }

  void begin_next() {
    auto& bucket = buckets_[begun_];
    write_message(bucket, parameters_);
    // The mean is taken before the sum, because a sum could be too large for half precision.
    if (reduction_ == Reduction::Mean) bucket.gradients.div_(ranks_->size());
    if (begun_ == 0) first_begun_ = Clock::now();
    bucket.pending = ranks_->begin_sum({bucket.gradients, bucket.givers});
    ++begun_;
  }

  void complete(GradientBucket& bucket) {
    bucket.pending->wait();
    bucket.pending.reset();
    read_message(bucket, parameters_);
  }

  const std::shared_ptr<Communicator> ranks_;
  const std::shared_ptr<std::atomic<int>> holders_;
  const Reduction reduction_;
  TensorsByName frozen_;

  // Backward passes over several devices have several threads, and a communicator is for one at a time.
  std::mutex mutex_;
  std::vector<ExchangedParameter> parameters_;
  std::vector<GradientBucket> buckets_;  // in the order in which they are sent
  std::size_t begun_ = 0;                // the number of those that are under way
  Clock::time_point first_begun_;
  GradientExchangeCost cost_;
};

GradientExchange::Hold::Hold(std::shared_ptr<std::atomic<int>> holders)
    : holders_(std::move(holders)) {
  ++*holders_;
}

GradientExchange::Hold::~Hold() {
  if (holders_) --*holders_;
}

GradientExchange::GradientExchange(const torch::nn::Module& model,
                                   std::shared_ptr<Communicator> ranks,
                                   const GradientExchangeOptions& options)
    : GradientExchange(listed(model.named_parameters()), std::move(ranks), options) {}

GradientExchange::GradientExchange(const TensorsByName& parameters,
                                   std::shared_ptr<Communicator> ranks,
                                   const GradientExchangeOptions& options)
    : holders_(std::make_shared<std::atomic<int>>(0)) {
  options.check();
  TORCH_CHECK(ranks != nullptr,
              "GradientExchange: there is no communicator, expected one such as single_process()");
  if (ranks->is_alone()) return;
  state_ = std::make_unique<State>(parameters, std::move(ranks), holders_, options);
}

GradientExchange::~GradientExchange() = default;

GradientExchange::Hold GradientExchange::hold() const { return Hold(holders_); }

void GradientExchange::finish() {
  if (state_) state_->finish();
}

GradientExchangeCost GradientExchange::last_cost() const {
  return state_ ? state_->cost() : GradientExchangeCost();
}

void share_parameters(torch::nn::Module& model, Communicator& ranks) {
  if (ranks.is_alone()) return;
  auto tensors = listed(model.named_parameters());
  for (auto& buffer : listed(model.named_buffers())) tensors.push_back(std::move(buffer));
  tensors = each_named_once(tensors);
  std::ostringstream description;
  for (const auto& [name, tensor] : tensors) {
    description << name << ", " << dtype_and_shape(tensor) << "\n";
  }
  check_same_on_all_ranks(ranks, "the parameters to share", description.str());

  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> contiguous;
  for (const auto& [name, tensor] : tensors) contiguous.push_back(tensor.detach().contiguous());
  ranks.broadcast(contiguous, /*root=*/0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i].second;
    if (!contiguous[i].is_alias_of(tensor)) tensor.copy_(contiguous[i]);
  }
}

}  // namespace adaact
