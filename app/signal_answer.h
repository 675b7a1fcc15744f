#pragma once

#include <cstdint>

namespace adaact::app {

/// Has Ctrl-C and SIGTERM answered at once, by a line that says what is still being finished.
void answer_signals();

/// From now on the line says that this step is being taken.
void note_step_being_taken(std::int64_t step);
/// From now on the line says that an evaluation is going on.
void note_evaluation();
/// From now on the line names neither a step nor an evaluation.
void note_other_work();

}  // namespace adaact::app
