#include "train/step/rank_totals.h"

#include <map>
#include <utility>

#include <torch/torch.h>

#include "train/step/details_collector.h"

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

TestDetails of_all_ranks(const TestDetails& own, Communicator& ranks) {
  if (ranks.size() == 1) return own;
  TestDetails all{own.classes, {}, {}};
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts;  // by label, prediction
  for (const auto& text : ranks.gather(own.to_json())) {
    const auto part = TestDetails::from_json(text, "what a rank has found");
    for (const auto& each : part.confusions) counts[{each.label, each.predicted}] += each.images;
    all.most_wrong.insert(all.most_wrong.end(), part.most_wrong.begin(), part.most_wrong.end());
  }
  for (const auto& [classes, images] : counts) {
    all.confusions.push_back({classes.first, classes.second, images});
  }
  keep_most_certain(all.most_wrong);
  return all;
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

GradientExchangeOptions shares_of_mean() {
  GradientExchangeOptions options;
  options.reduction = GradientExchangeOptions::Reduction::Sum;
  return options;
}

bool any_rank(bool own, Communicator& ranks) {
  if (ranks.size() == 1) return own;
  const auto saying = torch::full({1}, own ? 1 : 0, torch::kInt64);
  ranks.sum({saying});
  return saying.item<std::int64_t>() > 0;
}

}  // namespace adaact
