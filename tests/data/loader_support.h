#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/data/synthetic.h>
#include <gtest/gtest.h>

#include "support/tolerance.h"

namespace adaact::testing {

using LoadedBatch = adaact::Batch;

inline std::shared_ptr<adaact::ImageTensorDataset> small_data(std::int64_t size = 103) {
  adaact::SyntheticOptions options;
  options.size = size;
  options.shape = {3, 8, 8};
  return adaact::make_synthetic(options);
}

inline LoaderOptions small_options(std::int64_t workers) {
  auto options = LoaderOptions::training();
  options.batch_size = 10;
  options.workers = workers;
  options.prefetch = 3;
  options.seed = 5;
  return options;
}

inline std::vector<LoadedBatch> all_batches(Loader& loader, std::int64_t epoch,
                                            std::int64_t first = 0) {
  std::vector<LoadedBatch> batches;
  loader.start(epoch, first);
  while (auto batch = loader.next()) batches.push_back(*batch);
  return batches;
}

inline void expect_same(const LoadedBatch& actual, const LoadedBatch& expected) {
  EXPECT_EQ(actual.epoch, expected.epoch);
  EXPECT_EQ(actual.index, expected.index);
  EXPECT_TRUE(bit_identical(actual.images, expected.images));
  EXPECT_TRUE(bit_identical(actual.labels, expected.labels));
  EXPECT_TRUE(bit_identical(actual.samples, expected.samples));
  EXPECT_EQ(actual.own_share, expected.own_share);
  ASSERT_EQ(actual.partner_labels.defined(), expected.partner_labels.defined());
  if (actual.partner_labels.defined()) {
    EXPECT_TRUE(bit_identical(actual.partner_labels, expected.partner_labels));
  }
}

}  // namespace adaact::testing
