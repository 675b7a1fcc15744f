#include "observe/operators.h"

#include <string>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

namespace adaact {
namespace {

using Arguments = at::ArrayRef<const c10::IValue>;
using Parser = bool (*)(Arguments, LayerOperator&);
using torch::autograd::Node;

/// How to read an operator, and how many arguments that needs at least.
struct Reading {
  Parser parse;
  std::size_t arguments;
};

bool is_one(const c10::IValue& value) { return value.isScalar() && value.toScalar().equal(1); }

bool is_tensor(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

const torch::Tensor* optional_tensor(const c10::IValue& value) {
  return is_tensor(value) ? &value.toTensor() : nullptr;
}

Geometry linear_geometry(const LayerOperator& /*layer*/) { return Geometry::linear(); }

std::vector<std::int64_t> integers(const c10::IValue& value) {
  return value.isInt() ? std::vector<std::int64_t>{value.toInt()} : value.toIntVector();
}

Geometry convolution_geometry(const LayerOperator& layer, std::size_t groups_argument) {
  const auto kernel = layer.weight->sizes().slice(2);
  const auto stride = integers(layer.arguments[3]);
  const auto& padding = layer.arguments[4];
  const auto dilation = integers(layer.arguments[5]);
  const auto groups = layer.arguments[groups_argument].toInt();
  if (padding.isString()) {
    return Geometry::convolution_with_named_padding(kernel, stride, padding.toStringRef(), dilation,
                                                    groups);
  }
  return Geometry::convolution(kernel, stride, integers(padding), dilation, groups);
}

bool take_operands(Arguments arguments, std::size_t input, std::size_t weight, bool transposed,
                   LayerOperator& layer) {
  if (!is_tensor(arguments[input]) || !is_tensor(arguments[weight])) return false;
  layer.input = &arguments[input].toTensor();
  layer.weight = &arguments[weight].toTensor();
  layer.weight_is_transposed = transposed;
  layer.arguments = arguments;
  layer.read_geometry = &linear_geometry;
  return true;
}

// aten::linear(input, weight, bias)
bool parse_linear(Arguments arguments, LayerOperator& layer) {
  if (!take_operands(arguments, 0, 1, /*transposed=*/false, layer)) return false;
  layer.bias = optional_tensor(arguments[2]);
  return true;
}

// aten::matmul(input, weightᵀ), aten::mm(input, weightᵀ)
bool parse_matmul(Arguments arguments, LayerOperator& layer) {
  return take_operands(arguments, 0, 1, /*transposed=*/true, layer);
}

// aten::addmm(bias, input, weightᵀ, beta, alpha)
bool parse_addmm(Arguments arguments, LayerOperator& layer) {
  if (!take_operands(arguments, 1, 2, /*transposed=*/true, layer)) return false;
  layer.bias = optional_tensor(arguments[0]);
  return is_one(arguments[3]) && is_one(arguments[4]);
}

// aten::convNd(input, weight, bias, stride, padding, dilation, groups)
bool parse_convnd(Arguments arguments, LayerOperator& layer) {
  if (!take_operands(arguments, 0, 1, /*transposed=*/false, layer)) return false;
  layer.bias = optional_tensor(arguments[2]);
  layer.read_geometry = [](const LayerOperator& self) { return convolution_geometry(self, 6); };
  return true;
}

// aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
// groups, …)
bool parse_convolution(Arguments arguments, LayerOperator& layer) {
  if (!take_operands(arguments, 0, 1, /*transposed=*/false, layer)) return false;
  layer.bias = optional_tensor(arguments[2]);
  layer.read_geometry = [](const LayerOperator& self) { return convolution_geometry(self, 8); };
  const bool transposed_convolution = arguments[6].toBool();
  return !transposed_convolution;
}

bool parse_opaque(Arguments /*arguments*/, LayerOperator& /*layer*/) { return false; }

const std::unordered_map<std::string_view, Reading>& readings() {
  static const std::unordered_map<std::string_view, Reading> table{
      {"aten::linear", {&parse_linear, 3}},
      {"aten::matmul", {&parse_matmul, 2}},
      {"aten::mm", {&parse_matmul, 2}},
      {"aten::addmm", {&parse_addmm, 5}},
      {"aten::conv1d", {&parse_convnd, 7}},
      {"aten::conv2d", {&parse_convnd, 7}},
      {"aten::conv3d", {&parse_convnd, 7}},
      {"aten::convolution", {&parse_convolution, 9}},
      {"aten::_convolution", {&parse_convolution, 9}},
      {"aten::lstm", {&parse_opaque, 0}},
      {"aten::gru", {&parse_opaque, 0}},
      {"aten::rnn_tanh", {&parse_opaque, 0}},
      {"aten::rnn_relu", {&parse_opaque, 0}},
      {"aten::lstm_cell", {&parse_opaque, 0}},
      {"aten::gru_cell", {&parse_opaque, 0}},
      {"aten::rnn_tanh_cell", {&parse_opaque, 0}},
      {"aten::rnn_relu_cell", {&parse_opaque, 0}},
  };
  return table;
}

/// What people make weights from takes few operators; the output of a deep network is not walked down.
constexpr std::size_t kMostNodes = 32;

/// Backward nodes, but for a number at the end, of operators whose output is a function of the tensors that
/// they go back to. An embedding's is not: its indices are data.
bool is_function_of_its_leaves(std::string name) {
  static const std::unordered_set<std::string> names{
      "AbsBackward",     "AddBackward",        "AddmmBackward",     "AliasBackward",
      "BmmBackward",     "CatBackward",        "ClampBackward",     "ClampMinBackward",
      "CloneBackward",   "DivBackward",        "ExpBackward",       "ExpandBackward",
      "LogBackward",     "MeanBackward",       "MmBackward",        "MulBackward",
      "NegBackward",     "PermuteBackward",    "PowBackward",       "ReciprocalBackward",
      "ReluBackward",    "RepeatBackward",     "RsqrtBackward",     "RsubBackward",
      "SelectBackward",  "SigmoidBackward",    "SliceBackward",     "SoftplusBackward",
      "SqrtBackward",    "SqueezeBackward",    "StackBackward",     "SubBackward",
      "SumBackward",     "TBackward",          "TanhBackward",      "ToCopyBackward",
      "ViewBackward",    "TransposeBackward",  "NormBackward",      "LinalgVectorNormBackward",
      "SoftmaxBackward", "UnsafeViewBackward", "UnsqueezeBackward", "ReshapeAliasBackward"};
  if (name.empty() || name.back() < '0' || name.back() > '9') return false;  // a user's own node
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.pop_back();
  return names.count(name) > 0;
}

/// A node's name is written out anew whenever it is asked for; its type tells the same.
bool is_function_of_its_leaves(const Node& node) {
  thread_local std::unordered_map<std::type_index, bool> known;
  const auto [found, is_new] = known.try_emplace(typeid(node), false);
  if (is_new) found->second = is_function_of_its_leaves(node.name());
  return found->second;
}

}  // namespace

OperatorClass classify_operator(std::string_view name, Arguments arguments, LayerOperator& layer) {
  const auto found = readings().find(name);
  if (found == readings().end()) return OperatorClass::Irrelevant;
  const auto& [parse, least] = found->second;
  if (parse == &parse_opaque) return OperatorClass::Opaque;
  return arguments.size() >= least && parse(arguments, layer) ? OperatorClass::Layer
                                                              : OperatorClass::Irrelevant;
}

bool comes_from_leaves_alone(const torch::Tensor& tensor,
                             const std::function<bool(const torch::Tensor&)>& is_such_leaf) {
  if (tensor.is_leaf()) return is_such_leaf(tensor);
  std::vector<const Node*> open{tensor.grad_fn().get()};
  for (std::size_t visited = 0; !open.empty(); ++visited) {
    if (visited == kMostNodes) return false;
    const auto* node = open.back();
    open.pop_back();
    if (node == nullptr) return false;  // a tensor that takes no gradient
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node)) {
      if (!is_such_leaf(leaf->variable)) return false;
      continue;
    }
    if (!is_function_of_its_leaves(*node)) return false;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return true;
}

}  // namespace adaact
