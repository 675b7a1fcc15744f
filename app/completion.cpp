// Shell completion, made from the command line itself: a new command or option is completed as soon as it is
// there.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/datasets.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>

#include "commands.h"
#include "described_command.h"

namespace adaact::app {
namespace {

using Names = std::vector<std::string>;

std::string with_spaces(const Names& names) {
  std::string line;
  for (const auto& name : names) line += (line.empty() ? "" : " ") + name;
  return line;
}

/// The values of an option where there are only so many.
Names values_of(const std::string& option) {
  if (option == "--model") return model_names();
  if (option == "--dataset") return dataset_names();
  if (option == "--optimizer" || option == "--optimizers") return optimizer_names();
  if (option == "--device") return {"cpu", "cuda"};
  if (option == "--precision") return {"fp32", "tf32", "bf16"};
  if (option == "--memory-format") return {"contiguous", "channels-last"};
  if (option == "--graph") return {"on", "off"};
  if (option == "--image-work") return {"cpu", "gpu", "nvjpeg"};
  if (option == "--schedule") {
    return {"constant", "step", "multistep", "cosine", "cosine-per-step"};
  }
  return {};
}

Names names_of_commands(const CLI::App& app) {
  Names names;
  for (const auto* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

/// A line of a bash `case`: its pattern and what is offered there.
std::string offer(const std::string& pattern, const Names& words) {
  return "    " + pattern + ") words=\"" + with_spaces(words) + "\" ;;\n";
}

/// What may follow `COMMAND --option`: known values, or nothing and with it names of files.
std::string value_cases(const CLI::App& app) {
  std::string cases;
  for (const auto* command : commands_of(app)) {
    for (const auto* option : shown_options(*command)) {
      if (!takes_value(*option)) continue;
      for (const auto& name : option->get_lnames()) {
        cases += offer(command->get_name() + ":--" + name, values_of("--" + name));
      }
    }
  }
  return cases;
}

std::string command_cases(const CLI::App& app) {
  std::string cases;
  for (const auto* command : commands_of(app)) {
    Names words;
    for (const auto* option : shown_options(*command)) {
      for (const auto& name : option->get_lnames()) words.push_back("--" + name);
    }
    words.insert(words.end(), {"--config", "--help"});
    cases += offer(command->get_name(), words);
  }
  return cases;
}

/// The script for bash, in words that zsh's bashcompinit understands as well.
std::string bash_script(const CLI::App& app) {
  return R"(_adaact() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="" command="${COMP_WORDS[1]}" words=""
  [ "$COMP_CWORD" -eq 0 ] || before="${COMP_WORDS[COMP_CWORD-1]}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ")" +
         with_spaces(names_of_commands(app)) + R"( --help --version" -- "$word"))
    return
  fi
  case "$command:$before" in
)" + value_cases(app) +
         "    *:--config) ;;\n" + offer("help:help", names_of_commands(app)) +
         offer("completion:completion", {"bash", "zsh"}) + R"(    *)
      case "$word" in
        -*)
          case "$command" in
)" + command_cases(app) +
         R"(          esac ;;
      esac ;;
  esac
  # Where no word is offered, -o default completes names of files.
  [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _adaact adaact
)";
}

std::string zsh_script(const CLI::App& app) {
  return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(app);
}

}  // namespace

void add_completion_command(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>("bash");
  auto* command = app.add_subcommand("completion", "Print a script that completes command lines");
  command->add_option("shell", *shell, "bash or zsh")->capture_default_str();
  command->callback([&app, shell, &exit_code] {
    if (*shell != "bash" && *shell != "zsh") {
      throw CLI::ValidationError("shell", "is '" + *shell + "', expected bash or zsh");
    }
    const auto script = *shell == "bash" ? bash_script(app) : zsh_script(app);
    std::printf("%s", script.c_str());
    exit_code = 0;
  });
}

}  // namespace adaact::app
