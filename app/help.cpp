// `adaact help`: the same as --help for whoever expects a command, and the man page.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "described_command.h"
#include "io/near_miss.h"
#include "man_page.h"

namespace adaact::app {
namespace {

struct HelpArguments {
  std::string command;
  bool man = false;
};

std::string help_of(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const auto* command : commands_of(app)) {
    if (command->get_name() == name) return command->help(app.get_name());
    names.push_back(command->get_name());
  }
  throw CLI::ValidationError("there is no command '" + name + "'" + did_you_mean(name, names));
}

}  // namespace

void add_help_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<HelpArguments>();
  auto* command = app.add_subcommand("help", "Show what there is, or the options of a command");
  command->add_option("command", arguments->command, "As in `adaact help train`");
  command->add_flag("--man", arguments->man, "Print the man page, adaact.1");
  command->callback([&app, arguments, &exit_code] {
    // App::help() is that of the command which was chosen, and that is this one.
    const auto text =
        arguments->man ? man_page(app)
        : arguments->command.empty()
            ? app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal)
            : help_of(app, arguments->command);
    std::printf("%s", text.c_str());
    exit_code = 0;
  });
}

}  // namespace adaact::app
