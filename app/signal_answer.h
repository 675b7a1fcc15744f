#pragma once

#include <cstdint>

namespace adaact::app {

/// Has Ctrl-C and SIGTERM answered at once, by a line that says what is still being finished.
void answer_signals();

/// What the line says: which step is being taken.
void note_step_being_taken(std::int64_t step);
/// That an evaluation is going on.
void note_evaluation();
/// That neither is known.
void note_other_work();

}  // namespace adaact::app
