#pragma once

// What the ranks of a run settle among themselves before its first step. Rank 0 alone knows the folder.

#include <adaact/io/safetensors.h>
#include <adaact/ranks/communicator.h>
#include <adaact/train/run_config.h>
#include <adaact/train/training_run.h>

namespace adaact {

/// Throws RankError on all ranks where one has another version, build or configuration than the first. Where its data
/// lie, how many threads it has and which of several GPUs it uses is a rank's own matter.
void check_same_run(const RunConfig& config, Communicator& ranks);
/// The same for settings, which decide when ranks meet; how many threads prepare data is a rank's own matter.
void check_same_settings(const RunSettings& settings, Communicator& ranks);

/// Every rank gets the first one's file; the tensors are on the CPU.
void share_tensor_file(TensorFile& file, Communicator& ranks);

/// Of the signals that ranks have received, or 0, that of the first rank that has one: they end as one program.
int signal_of_all(int own, Communicator& ranks);

}  // namespace adaact
