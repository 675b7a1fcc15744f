// What updates on a GPU are in a build without CUDA: not asked for, because no parameter is there.

#include "kernels/without_cuda.h"
#include "optim/adaact/update_cuda.h"
#include "optim/adan/adan_update_cuda.h"
#include "optim/lamb/lamb_update_cuda.h"

namespace adaact {

bool can_update_cuda(const AdaActParameter& /*parameter*/) { return false; }
std::optional<std::vector<AdaActParameter>> describe_for_gpu(const std::vector<PlannedUpdate>& plan,
                                                             std::int64_t /*counted*/) {
  for (const auto& planned : plan) {
    if (planned.is_elementwise()) return std::nullopt;
  }
  return std::vector<AdaActParameter>();
}
bool can_update_cuda(const AdanParameter& /*parameter*/) { return false; }
bool can_update_cuda(const LambParameter& /*parameter*/) { return false; }

void adaact_update_cuda(const std::vector<AdaActParameter>& /*parameters*/,
                        const DeviceStep* /*step*/, const torch::Tensor& /*outsized*/) {
  throw_without_cuda("adaact_update_cuda()");
}
void apply_on_gpu(std::vector<PlannedUpdate>& /*plan*/, const std::vector<AdaActParameter>& updates,
                  const DeviceStep* /*step*/, const torch::Tensor& /*outsized*/) {
  if (!updates.empty()) throw_without_cuda("apply_on_gpu()");
}
void adan_update_cuda(const std::vector<AdanParameter>& /*parameters*/,
                      const torch::Tensor& /*gradient_norm*/, const DeviceStep* /*step*/) {
  throw_without_cuda("adan_update_cuda()");
}
void lamb_update_cuda(const std::vector<LambParameter>& /*parameters*/,
                      const torch::Tensor& /*gradient_norm*/, const DeviceStep* /*step*/) {
  throw_without_cuda("lamb_update_cuda()");
}

}  // namespace adaact
