// What ranks add up although not all of them have it, and who does what.

#include "ranks/shared_sums.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/thread_ranks.h"
#include "support/tolerance.h"

namespace {

using adaact::dealt_out;
using adaact::RankError;
using adaact::SharedSums;
using adaact::testing::bit_identical;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::on_ranks;
using adaact::testing::ThreadRank;

using Entries = std::vector<SharedSums::Entry>;

torch::Tensor numbers(std::vector<double> values, torch::ScalarType dtype = torch::kFloat64) {
  return torch::tensor(values, dtype);
}

Entries added_up(SharedSums& sums, Entries own, const std::vector<bool>& occasion = {}) {
  return sums.add_up([&] { return own; }, occasion);
}

std::vector<std::vector<std::int64_t>> keys_of(const Entries& entries) {
  std::vector<std::vector<std::int64_t>> keys;
  for (const auto& entry : entries) keys.push_back(entry.key);
  return keys;
}

/// Counts what a rank hands over.
class WeighingRank : public adaact::Communicator {
 public:
  explicit WeighingRank(std::shared_ptr<ThreadRank> rank) : rank_(std::move(rank)) {}

  std::int64_t rank() const override { return rank_->rank(); }
  std::int64_t size() const override { return rank_->size(); }
  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    for (const auto& tensor : tensors) {
      (tensor.is_floating_point() ? sums_ : others_) += tensor.numel();
      EXPECT_GT(tensor.numel(), 0);
    }
    ++messages_;
    return rank_->begin_sum(std::move(tensors));
  }
  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override {
    rank_->broadcast(tensors, root);
  }

  struct Sent {
    std::int64_t messages;
    std::int64_t sums;    // numbers of them
    std::int64_t others;  // such as counts
  };
  /// Since the last call.
  Sent sent() {
    return {std::exchange(messages_, 0), std::exchange(sums_, 0), std::exchange(others_, 0)};
  }

 private:
  std::shared_ptr<ThreadRank> rank_;
  std::int64_t messages_ = 0;
  std::int64_t sums_ = 0;
  std::int64_t others_ = 0;
};

TEST(SharedSums, EntriesOfAllRanksAddUpInOneOrder) {
  on_ranks(3, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    for (int repetition = 0; repetition < 3; ++repetition) {
      // Rank r has the keys r and r + 1, in an order of its own.
      const auto r = rank->rank();
      const auto value = static_cast<double>(r + 1);
      const SharedSums::Entry low{{0, r}, numbers({value, 10.0 * value}), r + 1};
      const SharedSums::Entry high{{0, r + 1}, numbers({100.0 * value, 0.0}), 10};
      const auto all = added_up(sums, r == 1 ? Entries{high, low} : Entries{low, high});
      ASSERT_EQ(keys_of(all),
                (std::vector<std::vector<std::int64_t>>{{0, 0}, {0, 1}, {0, 2}, {0, 3}}));
      EXPECT_TRUE(bit_identical(all[0].sum, numbers({1.0, 10.0})));
      EXPECT_TRUE(bit_identical(all[1].sum, numbers({102.0, 20.0})));
      EXPECT_TRUE(bit_identical(all[2].sum, numbers({203.0, 30.0})));
      EXPECT_TRUE(bit_identical(all[3].sum, numbers({300.0, 0.0})));
      EXPECT_EQ(all[0].count, 1);
      EXPECT_EQ(all[1].count, 12);
      EXPECT_EQ(all[2].count, 13);
      EXPECT_EQ(all[3].count, 10);
    }
  });
}

TEST(SharedSums, ARankMayHaveNothing) {
  on_ranks(3, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    for (std::int64_t who_has = 0; who_has < 3; ++who_has) {
      Entries own;
      if (rank->rank() == who_has) own.push_back({{7}, numbers({1.0, 2.0, 3.0}), 5});
      const auto all = added_up(sums, own);
      ASSERT_EQ(all.size(), 1U);
      EXPECT_TRUE(bit_identical(all[0].sum, numbers({1.0, 2.0, 3.0})));
      EXPECT_EQ(all[0].count, 5);
    }
  });
}

TEST(SharedSums, WhatNoRankHasIsLeftOut) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    EXPECT_TRUE(added_up(sums, {}).empty());
    const SharedSums::Entry one{{1}, numbers({1.0}), 1};
    const SharedSums::Entry two{{2}, numbers({2.0}), 1};
    EXPECT_EQ(added_up(sums, {one, two}).size(), 2U);
    const auto all = added_up(sums, {two});
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].key[0], 2);
    EXPECT_TRUE(bit_identical(all[0].sum, numbers({4.0})));
    EXPECT_TRUE(added_up(sums, {}).empty());
  });
}

TEST(SharedSums, SomethingMayBeSeenWithoutASum) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    for (int repetition = 0; repetition < 2; ++repetition) {
      Entries own;
      if (rank->is_first()) own.push_back({{1}, torch::Tensor(), 0});
      own.push_back({{2}, torch::Tensor(), 3});
      const auto all = added_up(sums, own);
      ASSERT_EQ(all.size(), 2U);
      EXPECT_FALSE(all[0].sum.defined());
      EXPECT_EQ(all[0].count, 0);
      EXPECT_FALSE(all[1].sum.defined());
      EXPECT_EQ(all[1].count, 6);
    }
  });
}

TEST(SharedSums, AKeyMayStandForSeveralShapesAndDtypes) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const bool first = rank->is_first();
    for (int repetition = 0; repetition < 2; ++repetition) {
      const auto all = added_up(sums, {{{1}, torch::ones({first ? 2 : 3, 2}), 1},
                                       {{1}, torch::Tensor(), 1},
                                       {{2}, torch::ones({2}, torch::kFloat64), 1},
                                       {{2}, torch::ones({2}, torch::kFloat32), 1},
                                       {{3}, torch::ones({}), 1},
                                       {{4}, torch::ones({0, 3}), 1}});
      ASSERT_EQ(all.size(), 7U);
      EXPECT_FALSE(all[0].sum.defined());
      EXPECT_TRUE(bit_identical(all[1].sum, torch::ones({2, 2})));
      EXPECT_TRUE(bit_identical(all[2].sum, torch::ones({3, 2})));
      EXPECT_TRUE(bit_identical(all[3].sum, torch::full({2}, 2.0, torch::kFloat32)));
      EXPECT_TRUE(bit_identical(all[4].sum, torch::full({2}, 2.0, torch::kFloat64)));
      EXPECT_TRUE(bit_identical(all[5].sum, torch::full({}, 2.0)));
      EXPECT_EQ(all[6].sum.sizes(), (std::vector<std::int64_t>{0, 3}));
    }
  });
}

TEST(SharedSums, SumsNeedNotBeContiguousAndStartWhereTensorsDo) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const auto matrix = torch::arange(15.0).view({3, 5});
    const auto all = added_up(
        sums, {{{1}, matrix.t(), 1}, {{2}, torch::ones({1}), 1}, {{3}, torch::ones({2, 1}), 1}});
    ASSERT_EQ(all.size(), 3U);
    EXPECT_TRUE(bit_identical(all[0].sum, 2.0 * matrix.t()));
    for (const auto& entry : all) {
      EXPECT_TRUE(entry.sum.is_contiguous());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entry.sum.data_ptr()) % 64, 0U);
    }
  });
}

TEST(SharedSums, OneMessageOnceThereIsALayout) {
  on_ranks(3, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const SharedSums::Entry one{{1}, torch::ones({4}), 1};
    const SharedSums::Entry two{{2}, torch::ones({4, 4}, torch::kFloat64), 1};
    added_up(sums, {one});
    for (int repetition = 0; repetition < 5; ++repetition) {
      const auto before = rank->sums();
      EXPECT_EQ(added_up(sums, rank->rank() == 1 ? Entries() : Entries{one}).size(), 1U);
      EXPECT_EQ(rank->sums() - before, 1);
    }
    // One rank has something new: all agree on a place for it, once.
    auto before = rank->sums();
    EXPECT_EQ(added_up(sums, rank->rank() == 2 ? Entries{two, one} : Entries{one}).size(), 2U);
    EXPECT_GT(rank->sums() - before, 1);
    before = rank->sums();
    EXPECT_EQ(added_up(sums, rank->rank() == 1 ? Entries{one, two} : Entries{one}).size(), 2U);
    EXPECT_EQ(rank->sums() - before, 1);
  });
}

TEST(SharedSums, AnOccasionHasALayoutOfItsOwn) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    const auto weighing = std::make_shared<WeighingRank>(rank);
    SharedSums sums(weighing);
    const std::vector<bool> due{true};
    const std::vector<bool> not_due{false};
    for (int repetition = 0; repetition < 3; ++repetition) {
      weighing->sent();
      EXPECT_EQ(added_up(sums, {{{1}, torch::ones({100}), 1}}, due).size(), 1U);
      const auto with_sums = weighing->sent();
      EXPECT_TRUE(added_up(sums, {}, not_due).empty());
      const auto without = weighing->sent();
      EXPECT_EQ(with_sums.sums, 112);  // a multiple of 16 of them
      EXPECT_EQ(without.sums, 0);
      EXPECT_EQ(without.messages, 1);
      EXPECT_EQ(with_sums.messages, repetition == 0 ? 4 : 1);  // two of them gather texts
    }
  });
}

TEST(SharedSums, WhatNobodyHadForLongNoLongerTravels) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    const auto weighing = std::make_shared<WeighingRank>(rank);
    SharedSums sums(weighing);
    const SharedSums::Entry stays{{1}, torch::ones({16}), 1};
    const SharedSums::Entry leaves{{2}, torch::ones({32}), 1};
    added_up(sums, {stays, leaves});
    for (int step = 0; step < 50; ++step) added_up(sums, {stays});
    weighing->sent();
    // Back in time, on one rank: nobody has to agree on anything.
    EXPECT_EQ(added_up(sums, rank->is_first() ? Entries{stays, leaves} : Entries{stays}).size(),
              2U);
    EXPECT_EQ(weighing->sent().messages, 1);
    for (int step = 0; step < 110; ++step) EXPECT_EQ(added_up(sums, {stays}).size(), 1U);
    weighing->sent();
    added_up(sums, {stays});
    EXPECT_EQ(weighing->sent().sums, 16);
    const auto all = added_up(sums, {stays, leaves});
    ASSERT_EQ(all.size(), 2U);
    EXPECT_TRUE(bit_identical(all[1].sum, torch::full({32}, 2.0)));
  });
}

TEST(SharedSums, SumsThatAreStillReadStay) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const auto first = added_up(sums, {{{1}, torch::ones({4}), 1}});
    const auto second = added_up(sums, {{{1}, torch::full({4}, 5.0), 1}});
    EXPECT_TRUE(bit_identical(first[0].sum, torch::full({4}, 2.0)));
    EXPECT_TRUE(bit_identical(second[0].sum, torch::full({4}, 10.0)));
    const auto* memory = second[0].sum.data_ptr();
    // Once nobody reads them, the memory serves again.
    auto third = added_up(sums, {{{1}, torch::ones({4}), 1}});
    const auto* own_memory = third[0].sum.data_ptr();
    third.clear();
    third = added_up(sums, {{{1}, torch::full({4}, 3.0), 1}});
    EXPECT_EQ(third[0].sum.data_ptr(), own_memory);
    EXPECT_NE(third[0].sum.data_ptr(), memory);
    EXPECT_TRUE(bit_identical(second[0].sum, torch::full({4}, 10.0)));
  });
}

TEST(SharedSums, OwnSumsAreLeftAsTheyAre) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const auto own = torch::ones({4});
    for (int repetition = 0; repetition < 2; ++repetition) added_up(sums, {{{1}, own, 1}});
    EXPECT_TRUE(bit_identical(own, torch::ones({4})));
  });
}

TEST(SharedSums, OneRankAloneSendsNothingAndCopiesNothing) {
  const auto alone = std::make_shared<ThreadRank>(nullptr, 0, 1);  // which nobody could meet
  SharedSums sums(alone);
  const auto own = torch::ones({4});
  const auto all = added_up(sums, {{{2}, own, 1}, {{1}, own, 1}});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].sum.is_same(own));
  EXPECT_EQ(all[0].key[0], 2);
  EXPECT_EQ(alone->sums(), 0);
  EXPECT_THROW(sums.add_up([]() -> Entries { throw std::logic_error("its own"); }),
               std::logic_error);
}

TEST(SharedSums, WhatOneRankThrowsIsThrownOnAll) {
  std::atomic<int> thrown{0};
  on_ranks(3, [&](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const SharedSums::Entry entry{{1}, torch::ones({4}), 1};
    for (int repetition = 0; repetition < 2; ++repetition) {  // without a layout, and with one
      const auto fail_on_one = [&]() -> Entries {
        TORCH_CHECK_VALUE(rank->rank() != 1, "the disk is full");
        return {entry};
      };
      if (rank->rank() == 1) {
        EXPECT_THROW(sums.add_up(fail_on_one), c10::ValueError);
      } else {
        try {
          sums.add_up(fail_on_one);
          ADD_FAILURE() << "nothing was thrown";
        } catch (const RankError& error) {
          EXPECT_EQ(std::string(error.what()), "rank 1: the disk is full");
        }
      }
      ++thrown;
      EXPECT_EQ(added_up(sums, {entry}).size(), 1U);  // and they go on
    }
  });
  EXPECT_EQ(thrown, 6);
}

TEST(SharedSums, TheFirstOfSeveralFailuresIsNamed) {
  on_ranks(3, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const auto error = error_of([&] {
      sums.add_up([&]() -> Entries {
        if (rank->rank() == 0) return {};
        throw std::runtime_error(rank->rank() == 1 ? "" : "the other");
      });
    });
    const std::vector<std::string> expected{"rank 1: ", "", "the other"};
    EXPECT_EQ(error, expected[static_cast<std::size_t>(rank->rank())]);
  });
}

TEST(SharedSums, OccasionsThatAreLongPastAreForgotten) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const Entries own{{{1}, torch::ones({4}), 1}};
    const auto sums_for = [&](int number) {
      std::vector<bool> occasion;
      for (int bit = 0; bit < 8; ++bit) occasion.push_back((number >> bit & 1) != 0);
      const auto before = rank->sums();
      const auto all = added_up(sums, own, occasion);
      EXPECT_EQ(all.size(), 1U);
      EXPECT_TRUE(all.at(0).sum.equal(torch::full({4}, 2.0)));
      return rank->sums() - before;
    };
    const auto to_agree = sums_for(0);
    EXPECT_EQ(sums_for(0), 1) << "one that was a moment ago is known";
    for (int other = 1; other < 200; ++other) EXPECT_EQ(sums_for(other), to_agree);
    EXPECT_EQ(sums_for(199), 1);
    EXPECT_EQ(sums_for(0), to_agree);
  });
}

TEST(SharedSums, TwoSumsUnderOneKeyAreAnErrorOnAllRanks) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    SharedSums sums(rank);
    const SharedSums::Entry entry{{3, 5}, torch::ones({4}), 1};
    for (int repetition = 0; repetition < 2; ++repetition) {
      const auto error = error_of([&] {
        added_up(sums, rank->is_first() ? Entries{entry} : Entries{entry, entry});
      });
      EXPECT_TRUE(contains(error, "two sums under the key [3, 5], expected one"));
      added_up(sums, {entry});
    }
  });
}

TEST(DealtOut, LargestFirstAndEachToWhoHasLeast) {
  EXPECT_EQ(dealt_out({1.0, 8.0, 2.0, 5.0}, 2), (std::vector<std::int64_t>{1, 0, 1, 1}));
  EXPECT_EQ(dealt_out({3.0, 3.0, 3.0}, 2), (std::vector<std::int64_t>{0, 1, 0}));
  EXPECT_EQ(dealt_out({1.0, 2.0}, 4), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(dealt_out({1.0, 2.0}, 1), (std::vector<std::int64_t>{0, 0}));
  EXPECT_TRUE(dealt_out({}, 3).empty());
}

}  // namespace
