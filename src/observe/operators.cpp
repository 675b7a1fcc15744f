#include "observe/operators.h"

#include <unordered_map>

namespace adaact {
namespace {

using Arguments = at::ArrayRef<const c10::IValue>;
using Parser = bool (*)(Arguments, LayerOperator&);

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

}  // namespace

OperatorClass classify_operator(std::string_view name, Arguments arguments, LayerOperator& layer) {
  const auto found = readings().find(name);
  if (found == readings().end()) return OperatorClass::Irrelevant;
  const auto& [parse, least] = found->second;
  if (parse == &parse_opaque) return OperatorClass::Opaque;
  return arguments.size() >= least && parse(arguments, layer) ? OperatorClass::Layer
                                                              : OperatorClass::Irrelevant;
}

}  // namespace adaact
