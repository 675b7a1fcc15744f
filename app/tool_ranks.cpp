#include "tool_ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <system_error>
#include <thread>

#include <adaact/ranks/mpi.h>
#include <adaact/ranks/nccl.h>
#include <torch/torch.h>
#include <unistd.h>

#include "commands.h"

namespace adaact::app {
namespace {

std::shared_ptr<Communicator>& tool_ranks() {
  static std::shared_ptr<Communicator> ranks;
  return ranks;
}

std::string name_of_machine() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

/// The value of the first of these variables that a starter has left in the environment.
std::int64_t number_from_starter(std::initializer_list<const char*> variables,
                                 std::int64_t otherwise) {
  for (const auto* variable : variables) {
    const auto* value = std::getenv(variable);
    if (value != nullptr) return std::strtoll(value, nullptr, 10);
  }
  return otherwise;
}

/// The number of ranks that a starter has started, this one among them; 1 where it does not say.
std::int64_t ranks_started() {
  if (!started_by_mpirun()) return 1;
  return number_from_starter({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1);
}

std::int64_t rank_as_started() {
  return number_from_starter({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0);
}

/// Waits until all ranks have started, so that what they have to say comes at the same time: by itself one starts much
/// sooner than another.
void try_to_join_ranks() {
  try {
    join_ranks(MpiOptions().timeout.count());
  } catch (const std::exception&) {
    return;  // each speaks for itself then
  }
}

std::string name_of_this_rank() {
  const auto& ranks = tool_ranks();
  if (ranks != nullptr) return ranks->describe(ranks->rank());
  return "rank " + std::to_string(rank_as_started()) + " (" + name_of_machine() + ")";
}

}  // namespace

std::shared_ptr<Communicator> join_ranks(double timeout_seconds) {
  if (!started_by_mpirun() || (!has_mpi() && ranks_started() <= 1)) return single_process();
  MpiOptions options;
  options.timeout = std::chrono::duration<double>(timeout_seconds);
  tool_ranks() = mpi_communicator(options);
  const auto joined = tool_ranks()->size();
  TORCH_CHECK(ranks_started() == 1 || joined == ranks_started(),
              "this process was started as one of ", ranks_started(), " ranks, but MPI knows of ",
              joined,
              ": its MPI is not that of the starter; adaact info names the one it was built with");
  return tool_ranks();
}

void leave_ranks() { tool_ranks().reset(); }

void fail_on_ranks(const std::string& message, int exit_code) {
  const auto& ranks = tool_ranks();
  if ((ranks != nullptr ? ranks->size() : ranks_started()) == 1) return;
  if (ranks == nullptr) try_to_join_ranks();
  // Where all ranks have the same to say the first says it and ends the others. What they have found out about this one
  // is theirs to say: they did not have its answer, and it may be that it was only stopped for a while.
  constexpr std::int64_t kMostTurns = 8;  // four seconds at most
  const auto own_name = name_of_this_rank();
  const bool is_about_this_one = message.rfind(own_name, 0) == 0;
  const auto turn = is_about_this_one ? kMostTurns : std::min(rank_as_started(), kMostTurns);
  // Long enough for the first to end the others on a machine that is busy, too.
  const auto head_start = std::chrono::seconds(turn == 0 ? 0 : 2);
  std::this_thread::sleep_for(head_start + std::chrono::milliseconds(250) * turn);
  const std::string name = "adaact: ";  // which print_message() puts before all of it
  const bool named = message.compare(0, name.size(), name) == 0;
  print_message(own_name + ": " + message.substr(named ? name.size() : 0));
  std::fflush(stdout);
  abort_all_ranks(exit_code);
}

bool is_first_of_started() { return ranks_started() == 1 || rank_as_started() == 0; }

bool prints_to_terminal() {
  if (::isatty(STDOUT_FILENO) == 0) return false;
  if (!started_by_mpirun()) return true;
  std::error_code error;
  const auto of_starter = std::filesystem::read_symlink(
      "/proc/" + std::to_string(::getppid()) + "/fd/" + std::to_string(STDOUT_FILENO), error);
  return error || of_starter.string().rfind("/dev/pts/", 0) == 0 ||
         of_starter.string().rfind("/dev/tty", 0) == 0;
}

std::int64_t PlaceOnMachine::threads() const {
  const auto bound_to = std::max<std::int64_t>(std::thread::hardware_concurrency(), 1);
  const auto of_machine = std::max<std::int64_t>(::sysconf(_SC_NPROCESSORS_ONLN), 1);
  return std::max<std::int64_t>(std::min(bound_to, of_machine / ranks), 1);
}

std::string PlaceOnMachine::device(const std::string& wanted) const {
  const auto gpus = static_cast<std::int64_t>(torch::cuda::device_count());
  if (wanted != "cuda" || gpus == 0 || ranks == 1) return wanted;
  return "cuda:" + std::to_string(rank % gpus);
}

PlaceOnMachine place_on_machine(Communicator& ranks) {
  PlaceOnMachine place;
  if (ranks.size() == 1) return place;
  const auto machines = ranks.gather(name_of_machine());
  const auto own = machines.begin() + ranks.rank();
  place.rank = std::count(machines.begin(), own, *own);
  place.ranks = std::count(machines.begin(), machines.end(), *own);
  return place;
}

std::shared_ptr<Communicator> ranks_on_devices(const std::shared_ptr<Communicator>& ranks,
                                               const std::string& device, double timeout_seconds) {
  // Which GPUs a rank sees, and as which number, is its starter's choice.
  const bool has_gpu = torch::Device(device).is_cuda() && has_nccl();
  auto gpus = ranks->gather(has_gpu ? name_of_gpu(torch::Device(device)) : "");
  std::sort(gpus.begin(), gpus.end());
  const bool are_shared = std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end();
  if (are_shared || gpus.front().empty()) return ranks;
  NcclOptions options;
  options.timeout = std::chrono::duration<double>(timeout_seconds);
  return nccl_communicator(ranks, torch::Device(device), options);
}

void check_is_alone(const std::string& command) {
  const auto ranks = ranks_started();
  if (ranks <= 1) return;
  throw RankError("adaact " + command + " was started as " + std::to_string(ranks) +
                  " ranks, expected one process: train and bench are for several");
}

}  // namespace adaact::app
