#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <adaact/ranks/communicator.h>

namespace adaact::app {

/// The ranks that mpirun or srun has started this tool with, for a command that they carry out together; of one process
/// the one. From here on leave_ranks() and fail_on_ranks() have something to do.
std::shared_ptr<Communicator> join_ranks(double timeout_seconds);

/// At the end of a command that went well: all ranks come to it.
void leave_ranks();

/// For an error of this rank, which ends all of them, before join_ranks() as well: prints it with the rank's name, once
/// where all have the same, and does not return. Where there are no ranks it does nothing.
void fail_on_ranks(const std::string& message, int exit_code);

/// Whether this is the rank that answers what all were asked, such as --help.
bool is_first_of_started();

/// Whether what is printed reaches a terminal. mpirun gives a rank one of its own, wherever it writes itself.
bool prints_to_terminal();

/// Which of the ranks on its machine a rank is.
struct PlaceOnMachine {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;

  /// The machine's cores, or those that this process is bound to, as far as they are this rank's.
  std::int64_t threads() const;
  /// "cuda" becomes one of the machine's GPUs, in turn.
  std::string device(const std::string& wanted) const;
};

/// All ranks ask at a time.
PlaceOnMachine place_on_machine(Communicator& ranks);

/// The ranks of join_ranks() as they train on their devices: by NCCL where the build has it and each rank has a GPU of
/// its own, which `device` names. All ranks ask at a time.
std::shared_ptr<Communicator> ranks_on_devices(const std::shared_ptr<Communicator>& ranks,
                                               const std::string& device, double timeout_seconds);

/// Throws for a command that ranks cannot carry out together.
void check_is_alone(const std::string& command);

}  // namespace adaact::app
