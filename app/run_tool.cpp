// docs/tool.md lists the exit codes.

#include "run_tool.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include "command_line.h"
#include "commands.h"
#include "io/error_text.h"
#include "io/printable.h"
#include "io/warning_listener.h"
#include "kernels/bf16_on_cpu.h"
#include "signal_answer.h"
#include "status_line.h"
#include "tool_ranks.h"

namespace {

bool notices_are_silenced = false;

}  // namespace

void adaact::app::print_message(const std::string& message) {
  clear_status_line();
  const std::string name = "adaact: ";
  const auto line = in_one_line(message);
  const bool named = line.compare(0, name.size(), name) == 0;
  std::fprintf(stderr, "%s%s\n", named ? "" : name.c_str(), line.c_str());
}

void adaact::app::print_notice(const std::string& line) {
  if (notices_are_wanted()) print_message(line);
}

void adaact::app::silence_notices() { notices_are_silenced = true; }

bool adaact::app::notices_are_wanted() { return !notices_are_silenced; }

namespace {

/// A training step frees and takes the same large blocks again and again. By default glibc gives them
/// back to the system each time, and up to 8 % of a step goes into clearing fresh pages.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

/// Whether whoever read our output has closed it, as `head` does once it has seen enough.
bool reader_has_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, /*timeout=*/0) > 0 && (output.revents & POLLERR) != 0;
}

/// Help text in which the options of `train` fit a screen: no option's name takes a line of its
/// own, and nothing follows the last one. Of --config, which belongs to all commands, it says so much.
class HelpText : public CLI::Formatter {
 public:
  HelpText() { column_width(34); }
  std::string make_description(const CLI::App* app) const override {
    return app->get_description() + "; --config FILE: the same from TOML or config.json\n";
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group == adaact::app::kRecipeOptions) return names_of(options);
    return CLI::Formatter::make_group(std::move(group), is_positional, std::move(options));
  }
  /// CLI11 keeps the options that exclude one in the order of their addresses, which differs from process to process.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string excludes = " Excludes:";
    auto text = CLI::Formatter::make_option_opts(option);
    if (option->get_excludes().empty()) return text;
    text.erase(text.find(excludes));  // they stand last
    std::set<std::string> names;
    for (const auto* other : option->get_excludes()) names.insert(other->get_name());
    text += excludes;
    for (const auto& name : names) text += " " + name;
    return text;
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    auto text = CLI::Formatter::make_help(app, std::move(name), mode);
    return text.erase(text.find_last_not_of('\n') + 1) + "\n";
  }

 private:
  /// The names alone, for options that few need: those look them up anyway.
  static std::string names_of(const std::vector<const CLI::Option*>& options) {
    constexpr std::size_t kWidth = 80;
    std::string lines;
    std::string line = "Of recipes such as ImageNet's (docs/tool.md):";
    for (const auto* option : options) {
      const auto name = " " + option->get_name();
      if (line.size() + name.size() > kWidth) {
        lines += line + "\n";
        line = " ";
      }
      line += name;
    }
    return lines + line + "\n";
  }
};

int run(int argc, char** argv) {
  using namespace adaact::app;
  const adaact::WarningListener warnings(print_notice);
  answer_signals();
  CLI::App app("AdaAct and its rivals: train, measure, compare", "adaact");
  app.require_subcommand(1);
  app.set_version_flag("--version", ADAACT_VERSION);
  // An option that is given twice counts the last time: a script may override a command line by
  // adding to it.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.fallthrough();  // so that --config may stand behind the command
  add_config_file(app);
  int exit_code = 0;
  add_train_command(app, exit_code);
  add_eval_command(app, exit_code);
  add_predict_command(app, exit_code);
  add_export_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_sweep_command(app, exit_code);
  add_find_lr_command(app, exit_code);
  add_report_command(app, exit_code);
  add_reproduce_command(app, exit_code);
  add_pack_command(app, exit_code);
  add_info_command(app, exit_code);
  add_completion_command(app, exit_code);
  add_help_command(app, exit_code);
  const auto help_text = std::make_shared<HelpText>();
  for (auto* command : app.get_subcommands({})) {
    const auto name = command->get_name();
    if (name != "train" && name != "bench") {
      command->preparse_callback([name](std::size_t /*arguments*/) { check_is_alone(name); });
    }
    command->get_help_ptr()->group("");  // left out: whoever reads the help knows --help
    command->formatter(help_text);
    refuse_empty_values(*command);
  }
  const auto fail = [](const std::string& message, int code) {
    fail_on_ranks(message, code);
    print_message(message);
    return code;
  };
  try {
    app.parse(argc, argv);
    leave_ranks();
  } catch (const CLI::Success& wish) {  // help or version
    return is_first_of_started() ? app.exit(wish) : 0;
  } catch (const CLI::ParseError& error) {
    return fail(explain(app, error), 2);
  } catch (const c10::ValueError& error) {  // of something that was typed
    return fail(with_option_names(adaact::error_text(error), app, OptionNames::OfValues), 2);
  } catch (const std::exception& error) {
    return fail(with_option_names(adaact::error_text(error), app, OptionNames::OfFields), 1);
  }
  return exit_code;
}

}  // namespace

void adaact::app::run_tool(int argc, char** argv) {
  keep_freed_memory();
  make_bf16_products_safe();
  std::signal(SIGPIPE, SIG_IGN);  // whoever read our lines has gone, the work goes on
  int exit_code = run(argc, argv);
  errno = 0;
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!printed && !reader_has_gone()) {
    const std::string reason = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
    print_message("not everything could be printed" + reason);
    if (exit_code == 0) exit_code = 1;
  }
  // Leaves out LibTorch's own clean-up, which takes an eighth of the time of a command like `info`.
  std::_Exit(exit_code);
}
