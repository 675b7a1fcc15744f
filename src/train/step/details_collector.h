#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/train/test_details.h>
#include <torch/types.h>

namespace adaact {

/// Leaves as many as TestDetails keeps. Among equally certain ones those stay that come first in the test data,
/// whatever the order in which they were found.
void keep_most_certain(std::vector<TestDetails::WrongImage>& images);

/// Gathers the details of an evaluation, batch by batch.
class DetailsCollector {
 public:
  explicit DetailsCollector(const Dataset& data) : data_(data) {}

  /// `logits` (B, classes) and the class that each image is taken for, (B), on any device.
  void add(const Batch& batch, const torch::Tensor& logits, const torch::Tensor& predicted);

  /// Reads the images that are shown from the data set.
  TestDetails details() const;

 private:
  const Dataset& data_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;  // by label, prediction
  std::vector<TestDetails::WrongImage> wrong_;  // the most certain first, without pictures
};

}  // namespace adaact
