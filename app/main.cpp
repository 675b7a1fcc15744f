// The `adaact` tool. Exit codes: 0 done, 1 an error, 2 a command line that cannot be followed, 130 and
// 143 ended by SIGINT and SIGTERM after what was done is saved.

#include <csignal>
#include <cstdio>
#include <string>

#include <malloc.h>

#include <c10/util/Exception.h>

#include "commands.h"
#include "io/warning_listener.h"

namespace {

/// A training step frees and takes the same large blocks again and again. By default glibc gives them
/// back to the system each time, and up to 8 % of a step goes into clearing fresh pages.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

void adaact::app::print_message(const std::string& line) {
  const std::string name = "adaact: ";
  const bool named = line.compare(0, name.size(), name) == 0;
  std::fprintf(stderr, "%s%s\n", named ? "" : name.c_str(), line.c_str());
}

int main(int argc, char** argv) {
  keep_freed_memory();
  std::signal(SIGPIPE, SIG_IGN);  // whoever read our lines has gone, the work goes on
  const adaact::WarningListener warnings(adaact::app::print_message);
  CLI::App app("adaact: activation-based optimization");
  app.require_subcommand(1);
  // A script may add to a command line what overrides it.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  int exit_code = 0;
  adaact::app::add_train_command(app, exit_code);
  adaact::app::add_eval_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const c10::Error& error) {
    adaact::app::print_message(error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    adaact::app::print_message(error.what());
    return 1;
  }
  return exit_code;
}
