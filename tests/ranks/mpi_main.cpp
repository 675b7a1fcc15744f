// Of tests that every rank of an MPI program runs at the same time. Rank 0 prints how they go, the others only what
// fails; the program fails if any rank does.

#include <cstdio>
#include <memory>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "ranks/mpi_ranks.h"
#include "support/skipped_cases.h"

namespace {

/// What fails, with the rank.
class FailuresOfRank : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "%s: %s:%d: %s\n",
                 adaact::testing::ranks().describe(adaact::testing::ranks().rank()).c_str(),
                 result.file_name(), result.line_number(), result.message());
  }
};

int run_on_all_ranks() {
  auto& ranks = adaact::testing::ranks();
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (!ranks.is_first()) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOfRank);
  }
  const auto failures = torch::full({1}, RUN_ALL_TESTS(), torch::kInt64);
  ranks.sum({failures});
  const bool all_passed = failures.item<std::int64_t>() == 0;
  if (ranks.is_first()) adaact::testing::tell_of_skipped_cases(all_passed);
  return all_passed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  adaact::MpiOptions options;
  options.timeout = std::chrono::seconds(10);
  const auto communicator = adaact::mpi_communicator(options);
  try {
    return run_on_all_ranks();
  } catch (const adaact::RankError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
