// The `adaact` tool. Exit codes: 0 done, 1 an error, 2 a command line that cannot be followed, 130 and
// 143 ended by SIGINT and SIGTERM after what was done is saved.

#include <cstdio>
#include <string>

#include <malloc.h>

#include <c10/util/Exception.h>

#include "commands.h"
#include "plain_warnings.h"

namespace {

/// A training step frees and takes the same large blocks again and again. By default glibc gives them
/// back to the system each time, and up to 8 % of a step goes into clearing fresh pages.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int report(const std::string& error) {
  const std::string name = "adaact: ";
  const bool named = error.compare(0, name.size(), name) == 0;
  std::fprintf(stderr, "%s%s\n", named ? "" : name.c_str(), error.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  const adaact::app::PlainWarnings warnings;
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
    return report(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return report(error.what());
  }
  return exit_code;
}
