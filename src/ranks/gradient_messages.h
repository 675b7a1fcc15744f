#pragma once

// What ranks send each other of gradients: those of several parameters in one message, one after the other.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <adaact/ranks/communicator.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

namespace adaact {

/// A parameter whose gradient is exchanged, and what its gradient is like in a message.
struct ExchangedParameter {
  ExchangedParameter(std::string its_name, const torch::Tensor& parameter);

  /// Name, dtype and layout of the gradient, which must be the same on all ranks.
  std::string description() const;
  /// Throws if the gradient, or where there is none the parameter, has another dtype, shape or device than when this
  /// was made.
  void check_gradient() const;
  /// Whether the gradient's numbers are in the order of the message.
  bool has_order_of_message(const torch::Tensor& gradient) const;

  std::int64_t number_bytes() const;
  std::int64_t bytes_with_padding() const { return numbers_with_padding * number_bytes(); }

  std::string name;
  torch::Tensor tensor;
  torch::ScalarType type;
  torch::Device device;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t numbers = 0;
  std::int64_t numbers_with_padding = 0;

  std::size_t bucket = 0;
  bool is_ready = false;                               // a backward pass has made its gradient
  std::shared_ptr<torch::autograd::Node> accumulator;  // what adds to the gradient
  std::uintptr_t hook = 0;                             // of the accumulator
};

/// Parameters that share messages.
struct GradientBucket {
  std::vector<std::size_t> parameters;  // in the order in which backward passes come to them
  std::int64_t bytes = 0;
  torch::Tensor padding;  // zeros, as many as may be needed between two gradients

  // What follows belongs to the message that is under way.
  torch::Tensor gradients;           // one after the other
  torch::Tensor givers;              // by parameter, how many ranks have a gradient; on the CPU
  std::vector<torch::Tensor> views;  // by parameter, its part of `gradients`
  std::unique_ptr<Communicator::Pending> pending;
};

/// Divides the parameters into buckets, in the order in which backward passes complete these: as a rule, what was
/// registered first comes last. Tells the parameters their buckets.
std::vector<GradientBucket> plan_gradient_buckets(std::vector<ExchangedParameter>& parameters,
                                                  std::int64_t most_bytes);

/// Puts the gradients of the bucket's parameters into a message, and into `givers` which there are; those that are not
/// are zeros. The gradients become parts of the message, so that their own memory is free.
void write_message(GradientBucket& bucket, std::vector<ExchangedParameter>& parameters);

/// Once the message is the sum over the ranks: gives the parameters their gradients, where any rank has one.
void read_message(GradientBucket& bucket, std::vector<ExchangedParameter>& parameters);

/// "Float of shape [3, 4]", for messages.
std::string dtype_and_shape(const torch::Tensor& tensor);

}  // namespace adaact
