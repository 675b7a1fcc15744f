#include <adaact/ranks/communicator.h>

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <adaact/ranks/mpi.h>
#include <adaact/ranks/nccl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/thread_ranks.h"

namespace {

using namespace adaact::testing;
using adaact::Communicator;
using adaact::RankError;

TEST(SingleProcess, IsTheWholeWorld) {
  const auto ranks = adaact::single_process();
  EXPECT_EQ(ranks->rank(), 0);
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_TRUE(ranks->is_first());
  EXPECT_TRUE(ranks->can_be_captured());
  EXPECT_TRUE(ranks->is_alone());
  EXPECT_EQ(ranks->describe(0), "rank 0");
  const auto tensor = torch::arange(6.0);
  ranks->sum({tensor});
  ranks->begin_sum({tensor, torch::Tensor()})->wait();
  ranks->broadcast({tensor}, 0);
  EXPECT_TRUE(tensor.equal(torch::arange(6.0)));
  EXPECT_EQ(ranks->gather("text"), std::vector<std::string>{"text"});
  EXPECT_NO_THROW(adaact::check_same_on_all_ranks(*ranks, "words", "text"));
  EXPECT_TRUE(contains(error_of([&] { ranks->broadcast({}, 1); }), "root is 1, expected 0"));
}

TEST(Communicator, GathersTextsOfDifferentLengthsByRank) {
  on_ranks(3, [](const auto& ranks) {
    const std::vector<std::string> texts{"", std::string("zero \0 inside", 13),
                                         "long\nwith two lines"};
    EXPECT_EQ(ranks->gather(texts[static_cast<std::size_t>(ranks->rank())]), texts);
    EXPECT_EQ(ranks->gather(""), (std::vector<std::string>(3)));
  });
}

TEST(Communicator, BytesOfTextsAreKept) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  on_ranks(2, [&](const auto& ranks) {
    EXPECT_EQ(ranks->gather(every_byte), (std::vector<std::string>{every_byte, every_byte}));
  });
}

TEST(Communicator, ABarrierIsASumAndEndsOnAllRanks) {
  on_ranks(4, [](const auto& ranks) {
    const auto before = ranks->sums();
    ranks->barrier();
    EXPECT_EQ(ranks->sums(), before + 1);
  });
}

/// What each of so many ranks is told, which must be the same on all.
std::string told_on_all(const std::vector<std::string>& texts) {
  std::mutex mutex;
  std::set<std::string> told;
  on_ranks(static_cast<std::int64_t>(texts.size()), [&](const auto& ranks) {
    std::string message;
    try {
      adaact::check_same_on_all_ranks(*ranks, "options",
                                      texts[static_cast<std::size_t>(ranks->rank())]);
    } catch (const RankError& error) {
      message = error.what();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    told.insert(message);
  });
  EXPECT_EQ(told.size(), 1U);
  return *told.begin();
}

TEST(SameOnAllRanks, SaysNothingWhereItIs) {
  EXPECT_EQ(told_on_all({"lr 0.1\nsteps 5", "lr 0.1\nsteps 5", "lr 0.1\nsteps 5"}), "");
  EXPECT_EQ(told_on_all({"", ""}), "");
}

TEST(SameOnAllRanks, NamesTheFirstRankThatDiffersAndTheFirstLine) {
  EXPECT_EQ(
      told_on_all({"lr 0.1\nsteps 5", "lr 0.1\nsteps 5", "lr 0.1\nsteps 6", "lr 0.3\nsteps 5"}),
      "rank 2 differs in options: it has steps 6, expected steps 5, which rank 0 has");
}

TEST(SameOnAllRanks, NamesALineThatIsMissingOrTooMuch) {
  EXPECT_EQ(told_on_all({"a\nb", "a"}),
            "rank 1 differs in options: it has nothing, expected b, which rank 0 has");
  EXPECT_EQ(told_on_all({"a", "a\nb"}),
            "rank 1 differs in options: it has b, expected nothing, which rank 0 has");
}

TEST(SameOnAllRanks, NamesALineThatIsEmpty) {
  EXPECT_EQ(told_on_all({"a\n", "a\n\n"}),
            "rank 1 differs in options: it has an empty line, expected nothing, which rank 0 has");
  EXPECT_EQ(told_on_all({"a\n\nb", "a\nb"}),
            "rank 1 differs in options: it has b, expected an empty line, which rank 0 has");
}

TEST(SameOnAllRanks, NamesALineFeedAtTheEnd) {
  EXPECT_EQ(
      told_on_all({"a", "a\n"}),
      "rank 1 differs in options: it has a line feed at its end, expected none, which rank 0 has");
  EXPECT_EQ(
      told_on_all({"a\n", "a"}),
      "rank 1 differs in options: it has no line feed at its end, expected one, which rank 0 has");
}

TEST(SameOnAllRanks, FindsALineThatReadsAsIfThereWereNone) {
  EXPECT_EQ(told_on_all({"a", "a\nnothing"}),
            "rank 1 differs in options: it has nothing, expected nothing, which rank 0 has");
}

TEST(SameOnAllRanks, ALongTextTravelsOnceWhereAllSayTheSame) {
  const std::string text(100000, 'x');
  on_ranks(5, [&](const auto& ranks) {
    adaact::check_same_on_all_ranks(*ranks, "options", text);
    EXPECT_LT(ranks->bytes(), 101000);
  });
}

TEST(Nccl, ABuildWithoutItSaysSo) {
  if (adaact::has_nccl()) GTEST_SKIP() << "this build has NCCL";
  EXPECT_TRUE(
      contains(error_of([] { adaact::nccl_communicator(adaact::single_process(), torch::kCUDA); }),
               "this build of adaact has no NCCL"));
}

TEST(Mpi, ABuildWithoutItSaysSo) {
  if (adaact::has_mpi()) GTEST_SKIP() << "this build has MPI";
  EXPECT_TRUE(contains(error_of([] { adaact::mpi_communicator(); }), "-DADAACT_MPI=ON"));
  EXPECT_EQ(adaact::mpi_traffic().bytes, 0);
}

}  // namespace
