#include "train/step/details_collector.h"

#include <algorithm>
#include <cmath>

#include <torch/torch.h>

#include "io/base64.h"
#include "train/step/thumbnail.h"

namespace adaact {

void keep_most_certain(std::vector<TestDetails::WrongImage>& images) {
  std::sort(images.begin(), images.end(), [](const auto& one, const auto& other) {
    return one.probability != other.probability ? one.probability > other.probability
                                                : one.index < other.index;
  });
  if (images.size() > kMostWrongImages) images.resize(kMostWrongImages);
}

void DetailsCollector::add(const Batch& batch, const torch::Tensor& logits,
                           const torch::Tensor& predicted) {
  const auto probabilities = torch::softmax(logits.to(torch::kFloat32), 1)
                                 .gather(1, predicted.unsqueeze(1))
                                 .squeeze(1)
                                 .cpu();
  const auto predictions = predicted.cpu();
  const auto probability = probabilities.accessor<float, 1>();
  const auto prediction = predictions.accessor<std::int64_t, 1>();
  const auto label = batch.labels.accessor<std::int64_t, 1>();
  const auto sample = batch.samples.accessor<std::int64_t, 1>();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    ++counts_[{label[i], prediction[i]}];
    if (label[i] == prediction[i] || !std::isfinite(probability[i])) continue;
    wrong_.push_back({sample[i], label[i], prediction[i], probability[i], {}});
  }
  keep_most_certain(wrong_);
}

TestDetails DetailsCollector::details() const {
  TestDetails details{data_.class_names(), {}, wrong_};
  for (const auto& [classes, images] : counts_) {
    details.confusions.push_back({classes.first, classes.second, images});
  }
  for (auto& image : details.most_wrong) {
    image.png = to_base64(thumbnail_png(data_, image.index, kThumbnailSize));
  }
  return details;
}

}  // namespace adaact
