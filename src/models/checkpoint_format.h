#pragma once

namespace adaact {

// How the model lies in a checkpoint of a run, beside the optimizer and the rest: tensors and metadata
// under names that begin so.
inline constexpr char kCheckpointFormat[] = "adaact.checkpoint.1";
inline constexpr char kModelInCheckpoint[] = "model/";

}  // namespace adaact
