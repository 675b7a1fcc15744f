#include "train/step/of_all_ranks.h"

#include <torch/torch.h>

namespace adaact {

Evaluation of_all_ranks(const Evaluation& own, Communicator& ranks) {
  if (ranks.size() == 1) return own;
  const auto images = static_cast<double>(own.images);
  const auto sums = torch::zeros({4}, torch::kFloat64);
  auto* values = sums.data_ptr<double>();
  if (own.images > 0) {  // without images it has no means
    values[0] = own.loss * images;
    values[1] = own.top1 * images;
    values[2] = own.top5 * images;
    values[3] = images;
  }
  ranks.sum({sums});
  return {values[0] / values[3], values[1] / values[3], values[2] / values[3],
          static_cast<std::int64_t>(values[3])};
}

SecondMoments of_all_ranks(const SecondMoments& own, std::int64_t own_images,
                           const torch::nn::Module& model, Communicator& ranks) {
  if (ranks.size() == 1) return own;
  const auto names = model.named_parameters().keys();
  const auto count = static_cast<std::int64_t>(names.size());
  const auto sums = torch::zeros({2, count}, torch::kFloat64);
  auto values = sums.accessor<double, 2>();
  const auto images = static_cast<double>(own_images);
  for (const auto& [name, mean] : own) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (names[static_cast<std::size_t>(i)] != name) continue;
      values[0][i] = mean * images;
      values[1][i] = images;
    }
  }
  ranks.sum({sums});
  SecondMoments of_all;
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[1][i] == 0.0) continue;
    of_all.emplace_back(names[static_cast<std::size_t>(i)], values[0][i] / values[1][i]);
  }
  return of_all;
}

bool any_rank(bool own, Communicator& ranks) {
  if (ranks.size() == 1) return own;
  const auto saying = torch::full({1}, own ? 1 : 0, torch::kInt64);
  ranks.sum({saying});
  return saying.item<std::int64_t>() > 0;
}

}  // namespace adaact
