#pragma once

#include <string>

namespace adaact::app {

/// Draws the line at the bottom of a terminal anew, as often as one likes.
void draw_status_line(const std::string& line);

/// Takes it away, if it is there, before anything else is printed. May be called by a signal handler.
void clear_status_line();

}  // namespace adaact::app
