#include "status_line.h"

#include <atomic>
#include <cstdio>

#include <unistd.h>

namespace adaact::app {
namespace {

std::atomic<bool> status_line_is_visible{false};

constexpr char kClearLine[] = "\r\033[K";

}  // namespace

void draw_status_line(const std::string& line) {
  status_line_is_visible = true;
  std::printf("%s%s", kClearLine, line.c_str());
  std::fflush(stdout);
}

void clear_status_line() {
  if (!status_line_is_visible.exchange(false)) return;
  const auto written = ::write(STDOUT_FILENO, kClearLine, sizeof(kClearLine) - 1);
  static_cast<void>(written);  // a terminal that is gone has no line either
}

}  // namespace adaact::app
