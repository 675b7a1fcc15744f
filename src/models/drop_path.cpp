#include "models/drop_path.h"

#include "layers/batch_part.h"

namespace adaact {
namespace {

/// One number per sample, shaped to multiply the branch: 1/keep for those that keep it, else 0.
torch::Tensor sample_scales(const torch::Tensor& branch, double keep) {
  const auto* part = BatchPart::current();
  std::vector<int64_t> shape(static_cast<std::size_t>(branch.dim()), 1);
  shape[0] = part != nullptr ? part->whole() : branch.size(0);
  const auto scales = torch::empty(shape, branch.options()).bernoulli_(keep).div_(keep);
  return part != nullptr ? scales.narrow(0, part->begin(), branch.size(0)) : scales;
}

}  // namespace

torch::Tensor drop_path(const torch::Tensor& branch, double rate, bool training) {
  if (!training || rate == 0.0) return branch;
  return branch * sample_scales(branch, 1.0 - rate);
}

double drop_path_rate(double last, int64_t block, int64_t blocks) {
  return blocks > 1 ? last * static_cast<double>(block) / static_cast<double>(blocks - 1) : 0.0;
}

}  // namespace adaact
