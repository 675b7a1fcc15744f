// Data that real processes open together.

#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/checked_images.h"
#include "data/made_up_images.h"
#include "ranks/mpi_ranks.h"

namespace {

using namespace adaact::testing;

TEST(MpiData, EachImageIsDecodedOnce) {
  constexpr std::int64_t kImages = 101;
  const MadeUpImages images(kImages);
  const auto defect_of = [](std::size_t i) {
    return i % 10 == 7 ? "no picture\n" + std::to_string(i) : std::string();
  };
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < kImages; ++i) numbers.push_back(i);
  adaact::CheckOptions options;
  options.ranks = adaact::mpi_communicator();
  std::atomic<std::int64_t> decoded{0};
  const auto check = [&](std::size_t i) {
    ++decoded;
    return defect_of(i);
  };
  const auto defects = find_defects(images, "images", numbers, check, options);
  for (std::size_t i = 0; i < defects.size(); ++i) EXPECT_EQ(defects[i], defect_of(i));
  EXPECT_LE(decoded, kImages / ranks().size() + 1);
  const auto by_all = torch::full({1}, decoded.load(), torch::kInt64);
  ranks().sum({by_all});
  EXPECT_EQ(by_all.item<std::int64_t>(), kImages);
}

}  // namespace
