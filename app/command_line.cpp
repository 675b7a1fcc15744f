#include "command_line.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "io/near_miss.h"
#include "options_of_run.h"

namespace adaact::app {
namespace {

const CLI::App& chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

/// A file for one command need not name it: its values belong to the command that was chosen.
class ConfigOfCommand : public CLI::ConfigTOML {
 public:
  explicit ConfigOfCommand(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    skip_byte_order_mark(input);
    const auto& chosen = chosen_command(app_);
    if ((input >> std::ws).peek() == '{') return options_of_run(text_of(input), chosen);
    auto items = CLI::ConfigTOML::from_config(input);
    for (auto& item : items) {
      if (item.parents.empty() && &chosen != &app_) item.parents = {chosen.get_name()};
      check(item);
    }
    return items;
  }

 private:
  static void skip_byte_order_mark(std::istream& input) {
    const std::string mark = "\xEF\xBB\xBF";
    for (const char letter : mark) {
      if (input.peek() != static_cast<unsigned char>(letter)) return;
      input.get();
    }
  }

  static std::string text_of(std::istream& input) {
    return {std::istreambuf_iterator<char>(input), {}};
  }

  static CLI::ConfigError refusal(const std::string& what) {
    return {"the configuration file gives " + what, CLI::ExitCodes::ConfigError};
  }

  void check(const CLI::ConfigItem& item) const {
    const auto section = item.parents.empty() ? std::string() : item.parents.front();
    const auto commands = command_names(app_);
    const bool known = std::find(commands.begin(), commands.end(), section) != commands.end();
    if (item.parents.size() != 1 || !known) {
      throw refusal("[" + section + "], which is no command" + did_you_mean(section, commands));
    }
    const auto options = option_names(*app_.get_subcommand(section));
    const auto option = "--" + item.name;
    const bool begin_or_end = item.name == "++" || item.name == "--";  // of a section, to CLI11
    if (begin_or_end || std::find(options.begin(), options.end(), option) != options.end()) return;
    throw refusal("'" + item.name + "', which is no option" + did_you_mean(option, options));
  }

  const CLI::App& app_;
};

std::string explain_unexpected(const CLI::App& app, const std::string& word) {
  const auto& command = chosen_command(app);
  const auto name = word.substr(0, word.find('='));
  if (&command == &app) {
    return "there is no command '" + name + "'" + did_you_mean(name, command_names(app));
  }
  if (name.rfind("--", 0) != 0) return "'" + name + "' was not expected";
  return "there is no option " + name + did_you_mean(name, option_names(command));
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// Puts an option in the place of a field wherever a message says what its value is.
void name_values(std::string& message, const std::string& field, const std::string& option) {
  for (const std::string verb : {" is ", " are ", " hold ", ", which is "}) {
    for (auto at = message.find(field + verb); at != std::string::npos;
         at = message.find(field + verb, at + option.size())) {
      const auto before = std::string_view(message).substr(0, at);
      const bool begins = before.empty() || ends_with(before, ": ") || ends_with(before, "; ") ||
                          ends_with(before, " than ") || ends_with(before, "optimizer option ");
      if (begins) message.replace(at, field.size(), option);
    }
  }
}

/// "--epochs is 1,1.5, expected a whole number" of a value that CLI11 cannot convert; empty where it does not
/// say of which.
std::string explain_conversion(const CLI::App& command, const std::string& problem) {
  const std::string beginning = "Could not convert: ";
  const auto equals = problem.find(" = ");
  if (problem.rfind(beginning, 0) != 0 || equals == std::string::npos) return {};
  const auto name = problem.substr(beginning.size(), equals - beginning.size());
  const auto* option = command.get_option_no_throw(name);
  if (option == nullptr) return {};
  const bool several = option->get_items_expected_max() > 1;
  const auto type = option->get_type_name();
  const bool whole = type == "INT" || type == "UINT";
  std::string expected = several ? "numbers" : "a number";
  if (whole) expected = several ? "whole numbers" : "a whole number";
  return name + " is " + problem.substr(equals + 3) + ", expected " + expected;
}

}  // namespace

void add_config_file(CLI::App& app) {
  app.set_config("--config", "", "Options from TOML or a run's config.json; the command line wins")
      ->type_name("FILE");
  app.config_formatter(std::make_shared<ConfigOfCommand>(app));
}

void refuse_empty_values(CLI::App& command) {
  const auto check = [](const std::string& value) {
    return value.empty() ? std::string("its value is empty") : std::string();
  };
  for (auto* option : command.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(check, "");
  }
}

std::string with_option_names(std::string message, const CLI::App& app, OptionNames names) {
  for (const auto& option : option_names(chosen_command(app))) {
    auto field = option.substr(2);
    std::replace(field.begin(), field.end(), '-', '_');
    if (names == OptionNames::OfValues) {
      name_values(message, field, option);
    } else if (field.find('_') != std::string::npos) {  // no ordinary word
      const auto place = message.find(field + " is ");
      if (place != std::string::npos) message.replace(place, field.size(), option);
    }
  }
  return message;
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto& command = chosen_command(app);
  const std::string help =
      (&command == &app ? "adaact" : "adaact " + command.get_name()) + std::string(" --help");
  std::string problem = error.what();
  // An option that is required and missing may be among those that nobody knows, misspelt.
  const bool missing_or_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                                  dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const auto extras = app.remaining(/*recurse=*/true);
  if (missing_or_unknown && !extras.empty()) problem = explain_unexpected(app, extras.front());
  const auto conversion = explain_conversion(command, problem);
  if (!conversion.empty()) return conversion;
  const bool asks = !problem.empty() && problem.back() == '?';
  return problem + (asks ? " " : "; ") + help + " shows all there are";
}

}  // namespace adaact::app
