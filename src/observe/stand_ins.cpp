#include "observe/stand_ins.h"

#include "kernels/memory_layout.h"
#include "observe/listener_scope.h"

namespace adaact {
namespace {

const StandIns*& innermost_stand_ins() {
  thread_local const StandIns* innermost = nullptr;
  return innermost;
}

/// What `view` is of the copy, of the parameter.
torch::Tensor same_view(const torch::Tensor& parameter, const torch::Tensor& copy,
                        const torch::Tensor& view) {
  const ListenerScope scope;
  const auto offset = view.storage_offset() - copy.storage_offset();
  return parameter.as_strided(view.sizes(), view.strides(), parameter.storage_offset() + offset);
}

}  // namespace

StandIns::StandIns() : outer_(innermost_stand_ins()) { innermost_stand_ins() = this; }

StandIns::~StandIns() { innermost_stand_ins() = outer_; }

void StandIns::add(const torch::Tensor& copy, const torch::Tensor& parameter, Gradient gradient) {
  TORCH_INTERNAL_ASSERT(!copy.is_view() && copy.sizes() == parameter.sizes() &&
                        are_laid_out_alike(copy, parameter));
  by_copy_[copy.unsafeGetTensorImpl()] = {copy, {parameter, gradient}};
}

StandIns::Original StandIns::original_of(const torch::Tensor& operand) {
  const auto* scope = innermost_stand_ins();
  if (scope == nullptr) return {};
  const bool is_view = operand.is_view();
  const auto* identity =
      is_view ? operand._base().unsafeGetTensorImpl() : operand.unsafeGetTensorImpl();
  for (; scope != nullptr; scope = scope->outer_) {
    const auto found = scope->by_copy_.find(identity);
    if (found == scope->by_copy_.end()) continue;
    const auto& [copy, original] = found->second;
    if (!is_view) return original;
    if (operand.scalar_type() != copy.scalar_type()) return {};
    return {same_view(original.parameter, copy, operand), original.gradient};
  }
  return {};
}

}  // namespace adaact
