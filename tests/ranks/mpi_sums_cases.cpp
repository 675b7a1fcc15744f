#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "ranks/mpi_ranks.h"
#include "support/errors.h"

namespace {

using namespace adaact::testing;

/// What a rank brings: numbers that no other has.
torch::Tensor of_rank(std::int64_t rank, at::IntArrayRef sizes, torch::ScalarType dtype) {
  std::int64_t count = 1;
  for (const auto size : sizes) count *= size;
  return (torch::arange(count) % 5 + rank + 1).reshape(sizes).to(dtype);
}

torch::Tensor sum_of_all(at::IntArrayRef sizes, torch::ScalarType dtype) {
  auto sum = of_rank(0, sizes, dtype);
  for (std::int64_t rank = 1; rank < ranks().size(); ++rank) sum += of_rank(rank, sizes, dtype);
  return sum;
}

/// Numbers whose sum depends on the order.
torch::Tensor uneven(std::int64_t seed, std::int64_t count,
                     torch::ScalarType dtype = torch::kFloat32) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return torch::randn({count}, torch::kFloat64).exp().to(dtype);
}

/// Fails, and names the first that differs, unless all ranks have the same bits.
void expect_same_bits_on_all_ranks(const torch::Tensor& tensor) {
  const auto* bytes = static_cast<const char*>(tensor.data_ptr());
  EXPECT_NO_THROW(
      adaact::check_same_on_all_ranks(ranks(), "bits", std::string(bytes, tensor.nbytes())));
}

TEST(MpiSums, EveryDtypeIsSummed) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16,
                           torch::kInt64, torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8,
                           torch::kComplexFloat, torch::kComplexDouble}) {
    const auto tensor = of_rank(ranks().rank(), {3, 7}, dtype);
    ranks().sum({tensor});
    EXPECT_TRUE(tensor.equal(sum_of_all({3, 7}, dtype))) << dtype << ": " << tensor;
  }
}

TEST(MpiSums, OfBooleansItIsWhetherAnyIsTrue) {
  const auto is_last = ranks().rank() + 1 == ranks().size();
  const auto tensor = torch::tensor({is_last, false, true});
  ranks().sum({tensor});
  EXPECT_TRUE(tensor.equal(torch::tensor({true, false, true})));
}

TEST(MpiSums, ADtypeThatCannotBeAddedIsNamed) {
  const auto tensor = torch::quantize_per_tensor(torch::zeros({2}), 1, 0, torch::kQInt8);
  EXPECT_TRUE(contains(error_of([&] { ranks().begin_sum({tensor}); }), "QInt8"));
}

TEST(MpiSums, ATensorThatIsNotContiguousIsRefused) {
  const auto transposed = torch::zeros({2, 3}).t();
  EXPECT_TRUE(
      contains(error_of([&] { ranks().begin_sum({transposed}); }), "[3, 2] is not contiguous"));
  EXPECT_TRUE(
      contains(error_of([&] { ranks().broadcast({transposed}, 0); }), "[3, 2] is not contiguous"));
}

TEST(MpiSums, AListOfManyTensorsAndDtypes) {
  const auto rank = ranks().rank();
  std::vector<torch::Tensor> tensors;
  std::vector<torch::Tensor> expected;
  for (const auto dtype :
       {torch::kFloat32, torch::kBFloat16, torch::kFloat64, torch::kFloat32, torch::kInt64}) {
    for (const std::int64_t size : {1, 0, 5, 1000}) {
      tensors.push_back(of_rank(rank, {size, 2}, dtype));
      expected.push_back(sum_of_all({size, 2}, dtype));
    }
  }
  ranks().sum(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(tensors[i].equal(expected[i])) << i;
}

TEST(MpiSums, EmptyListsAndEmptyTensors) {
  ranks().sum({});
  const auto empty = torch::empty({0, 3});
  ranks().sum({empty});
  EXPECT_EQ(empty.sizes(), (std::vector<std::int64_t>{0, 3}));
  ranks().broadcast({}, ranks().size() - 1);
}

TEST(MpiSums, NarrowNumbersAreRoundedOnce) {
  // Each addition of its own would lose the small number to rounding.
  const auto is_first = ranks().is_first();
  const auto tensor = torch::full({4}, is_first ? 256.0 : 0.6, torch::kBFloat16);
  auto expected = torch::full({4}, 256.0F);
  for (std::int64_t rank = 1; rank < ranks().size(); ++rank) {
    expected += torch::full({4}, 0.6, torch::kBFloat16).to(torch::kFloat32);
  }
  ranks().sum({tensor});
  EXPECT_TRUE(tensor.equal(expected.to(torch::kBFloat16))) << tensor;
}

TEST(MpiSums, AllRanksHaveTheSameBits) {
  // Sizes around those at which MPI changes its algorithm, and at which a tensor becomes several messages.
  for (const std::int64_t count : {1, 3, 1000, 16384, 16387, 524288, 524289, 1100000}) {
    const auto tensor = uneven(ranks().rank(), count);
    ranks().sum({tensor});
    expect_same_bits_on_all_ranks(tensor);
    auto expected = uneven(0, count, torch::kFloat64);
    for (std::int64_t rank = 1; rank < ranks().size(); ++rank)
      expected += uneven(rank, count, torch::kFloat64);
    EXPECT_TRUE(torch::allclose(tensor.to(torch::kFloat64), expected, 1e-6, 0)) << count;
  }
}

TEST(MpiSums, SeveralAtATimeAreAllRight) {
  std::vector<torch::Tensor> tensors;
  std::vector<std::unique_ptr<adaact::Communicator::Pending>> pending;
  for (const std::int64_t size : {300000, 2, 70000, 900000, 1}) {
    tensors.push_back(of_rank(ranks().rank(), {size}, torch::kFloat32));
    pending.push_back(ranks().begin_sum({tensors.back()}));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pending[i]->wait();
    EXPECT_TRUE(tensors[i].equal(sum_of_all(tensors[i].sizes(), torch::kFloat32))) << i;
  }
}

TEST(MpiSums, OneThatNobodyWaitsForIsMadeAllTheSame) {
  const auto tensor = of_rank(ranks().rank(), {10}, torch::kFloat32);
  ranks().begin_sum({tensor});
  ranks().barrier();
  EXPECT_TRUE(tensor.equal(sum_of_all({10}, torch::kFloat32)));
}

TEST(MpiSums, GoOnWhileTheCallerDoesSomethingElse) {
  const auto tensor = of_rank(ranks().rank(), {1000}, torch::kFloat32);
  ranks().barrier();
  const auto before = adaact::mpi_traffic();
  const auto pending = ranks().begin_sum({tensor});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto start = std::chrono::steady_clock::now();
  pending->wait();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  EXPECT_LT(waited.count(), 0.1);
  EXPECT_TRUE(tensor.equal(sum_of_all({1000}, torch::kFloat32)));
  EXPECT_LT(adaact::mpi_traffic().seconds_waited - before.seconds_waited, 0.1);
}

TEST(MpiBroadcast, OfEachRank) {
  for (std::int64_t root = 0; root < ranks().size(); ++root) {
    std::vector<torch::Tensor> tensors;
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kInt64, torch::kBool}) {
      tensors.push_back(of_rank(ranks().rank(), {4, 3}, dtype));
    }
    tensors.push_back(uneven(ranks().rank(), 1200000));
    ranks().broadcast(tensors, root);
    for (const auto& tensor : tensors) {
      const auto expected =
          tensor.dim() == 2 ? of_rank(root, {4, 3}, tensor.scalar_type()) : uneven(root, 1200000);
      EXPECT_TRUE(tensor.equal(expected)) << root << ' ' << tensor.scalar_type();
    }
  }
}

TEST(MpiBroadcast, ARootThatIsNoneIsNamed) {
  EXPECT_TRUE(contains(error_of([] { ranks().broadcast({}, ranks().size()); }),
                       "root is " + std::to_string(ranks().size())));
}

TEST(MpiRanks, KnowWhereTheyAre) {
  const auto name = ranks().describe(ranks().rank());
  EXPECT_EQ(name.find("rank " + std::to_string(ranks().rank()) + " ("), 0U) << name;
  EXPECT_EQ(name.back(), ')');
  EXPECT_TRUE(adaact::has_mpi());
  EXPECT_TRUE(adaact::started_by_mpirun());
  EXPECT_FALSE(ranks().can_be_captured());
}

TEST(MpiRanks, ThereIsOneCommunicatorInAProcess) {
  EXPECT_EQ(adaact::mpi_communicator(), adaact::mpi_communicator());
}

TEST(MpiRanks, ABarrierWaitsForTheSlowest) {
  using Clock = std::chrono::steady_clock;
  ranks().barrier();
  const auto start = Clock::now();
  if (ranks().rank() + 1 == ranks().size())
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ranks().barrier();
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(190));
}

TEST(MpiRanks, GatherTextsOfDifferentLengths) {
  for (const auto& part : {std::string(), std::string("a\0b\n", 4), std::string(100000, 'x')}) {
    std::string own;
    for (std::int64_t i = 0; i < ranks().rank(); ++i) own += part;
    const auto texts = ranks().gather(own);
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(ranks().size()));
    std::string expected;
    for (const auto& text : texts) {
      EXPECT_EQ(text, expected);
      expected += part;
    }
  }
}

TEST(MpiRanks, OneThatDiffersIsNamedOnAll) {
  const auto last = ranks().size() - 1;
  if (last == 0) GTEST_SKIP() << "there is one rank, which differs from none";
  EXPECT_NO_THROW(adaact::check_same_on_all_ranks(ranks(), "versions", "1\n2\n3"));
  const auto message = error_of([&] {
    adaact::check_same_on_all_ranks(ranks(), "versions",
                                    ranks().rank() == last ? "1\n5\n3" : "1\n2\n3");
  });
  EXPECT_TRUE(
      contains(message, ranks().describe(last) + " differs in versions: it has 5, expected 2"));
}

TEST(MpiRanks, CountWhatTheySend) {
  if (ranks().size() == 1) GTEST_SKIP() << "one rank sends nothing";
  ranks().barrier();
  const auto before = adaact::mpi_traffic();
  ranks().sum({torch::ones({1000}), torch::ones({5, 5}), torch::ones({3}, torch::kInt64)});
  const auto after = adaact::mpi_traffic();
  EXPECT_EQ(after.bytes - before.bytes, 4 * 1025 + 8 * 3);
  EXPECT_EQ(after.messages - before.messages, 2);
  EXPECT_GT(after.seconds_busy, before.seconds_busy);
  EXPECT_GT(after.seconds_moving, before.seconds_moving);
  EXPECT_GE(after.seconds_busy, after.seconds_moving);
}

/// Milliseconds of a sum, the median of some.
double time_of_sum(std::int64_t bytes) {
  const auto tensor = torch::ones({bytes / 4});
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    ranks().barrier();
    const auto start = std::chrono::steady_clock::now();
    ranks().sum({tensor});
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

TEST(MpiSums, AreFast) {
  for (const std::int64_t bytes : {4, 8192, 1 << 20, 25 << 20}) {
    const auto milliseconds = time_of_sum(bytes);
    if (ranks().is_first())
      std::printf("a sum of %lld bytes: %.2f ms\n", static_cast<long long>(bytes), milliseconds);
    EXPECT_LT(milliseconds, 1000);
  }
}

}  // namespace
