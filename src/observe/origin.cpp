#include "observe/origin.h"

#include <string>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

namespace adaact {
namespace {

using torch::autograd::Node;

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
