// A program whose ranks do not all do what they should, for mpi_faults_test.cpp: ranks_mpi_faults FAULT TIMEOUT. Each
// rank prints what it is told, and ends with 1 if that is an error.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include <adaact/ranks/mpi.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

namespace {

void sleep_for_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void sum_some_numbers(adaact::Communicator& ranks, std::int64_t count = 100) {
  ranks.sum({torch::ones({count})});
}

/// From now on the system refuses whatever this process asks for beyond what it has.
void allow_no_more_memory() {
  const rlimit nothing{1, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_AS, &nothing) != 0) throw std::runtime_error("setrlimit failed");
}

/// What goes wrong, and that on the last rank.
void run(adaact::Communicator& ranks, const std::string& fault) {
  const bool is_last = ranks.rank() + 1 == ranks.size();
  sum_some_numbers(ranks);
  if (fault == "is_late") {
    if (is_last) sleep_for_seconds(4);
  } else if (fault == "is_stopped") {
    if (is_last) std::raise(SIGSTOP);
  } else if (fault == "is_killed") {
    if (is_last) std::raise(SIGKILL);
  } else if (fault == "throws") {
    if (is_last) throw std::runtime_error("out of luck");
  } else if (fault == "has_no_memory") {
    // To be added up they are widened to float32, which takes as much memory again and more.
    const auto numbers = torch::ones({1 << 25}, torch::kBFloat16);
    if (is_last) allow_no_more_memory();
    ranks.sum({numbers});
  } else if (fault == "aborts") {
    if (is_last) adaact::abort_all_ranks(7);
  } else if (fault == "has_more_numbers") {
    sum_some_numbers(ranks, is_last ? 100 : 200);
  } else if (fault == "has_other_numbers") {
    ranks.sum({torch::ones({100}, is_last ? torch::kInt32 : torch::kFloat32)});
  } else if (fault == "calls_something_else") {
    if (is_last) ranks.broadcast({torch::ones({100})}, 0);
  } else if (fault == "ends_early") {
    if (is_last) return;
  } else if (fault == "comes_late_to_its_end") {
    if (is_last) sleep_for_seconds(3);
    return;
  } else if (fault == "is_suspended_with_all_others") {
    std::printf("pid %d\n", static_cast<int>(::getpid()));
    std::fflush(stdout);
    for (int i = 0; i < 20; ++i) {
      sum_some_numbers(ranks);
      sleep_for_seconds(0.1);
    }
  } else {
    throw std::invalid_argument("no such fault: " + fault);
  }
  sum_some_numbers(ranks);
}

}  // namespace

int main(int /*argc*/, char** argv) {
  // A pipe of mpirun's is no terminal, and lines would come when the program ends, or never.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::string error;
  try {
    adaact::MpiOptions options;
    options.timeout = std::chrono::duration<double>(std::stod(argv[2]));
    const auto ranks = adaact::mpi_communicator(options);
    try {
      run(*ranks, argv[1]);
    } catch (const adaact::RankError& first) {
      error = first.what();
      try {
        sum_some_numbers(*ranks);
        error += ", and then nothing";
      } catch (const adaact::RankError& second) {
        if (std::strcmp(first.what(), second.what()) != 0)
          error += std::string(", and then ") + second.what();
      }
    }
  } catch (const std::exception& other) {
    error = other.what();
  }
  if (error.empty()) return 0;
  std::printf("told: %s\n", error.c_str());
  sleep_for_seconds(1);  // mpirun ends the others with the first, and these want to print theirs
  return 1;
}
