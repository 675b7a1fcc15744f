#include "man_page.h"

#include "described_command.h"

namespace adaact::app {
namespace {

/// A text as troff prints it. Hyphens of options must stay what they are when somebody copies them.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else {
      escaped += letter;
    }
  }
  // A line that begins so would be a request.
  if (!escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'')) escaped.insert(0, "\\&");
  return escaped;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string option_entry(const CLI::Option& option) {
  auto head = bold(option.get_name());
  if (takes_value(option)) {
    if (!option.get_type_name().empty()) head += " " + italic(option.get_type_name());
    if (!option.get_default_str().empty()) head += " (" + roff(option.get_default_str()) + ")";
  }
  if (option.get_required()) head += ", required";
  return ".TP\n" + head + "\n" + roff(option.get_description()) + "\n";
}

std::string usage_of(const CLI::App& command) {
  auto line = bold("adaact " + command.get_name());
  if (!shown_options(command).empty()) line += " [" + italic("options") + "]";
  for (const auto* option : positionals(command)) {
    const bool many = option->get_expected_max() > 1;
    const auto name = italic(option->get_name(/*positional=*/true)) + (many ? "..." : "");
    line += option->get_required() ? " " + name : " [" + name + "]";
  }
  return line + "\n";
}

std::string command_section(const CLI::App& command) {
  auto text = ".SS " + roff(command.get_name()) + "\n" + usage_of(command) + ".PP\n" +
              roff(command.get_description()) + ".\n";
  for (const auto* option : positionals(command)) {
    text += ".TP\n" + italic(option->get_name(/*positional=*/true)) + "\n" +
            roff(option->get_description()) + "\n";
  }
  for (const auto* option : shown_options(command)) text += option_entry(*option);
  return text;
}

constexpr char kEnd[] = R"(.SH CONFIGURATION FILES
Every command takes \fB\-\-config\fR \fIFILE\fR:
a TOML file whose names are the long options without their dashes.
What stands on the command line counts more.
.SH EXIT STATUS
.TP
0
Done.
.TP
1
An error: one line on standard error says what, and what to do.
.TP
2
A command line or a configuration file that cannot be followed.
.TP
130, 143
Ended by SIGINT or SIGTERM, with everything saved.
.SH ENVIRONMENT
.TP
OMP_WAIT_POLICY
With \fIpassive\fR threads that wait sleep.
That is faster where other programs run beside this one.
.SH SEE ALSO
.BR gnuplot (1),
which draws the figures of reports.
)";

}  // namespace

std::string man_page(const CLI::App& app) {
  auto text = ".TH ADAACT 1 \"\" \"adaact " + std::string(ADAACT_VERSION) +
              "\" \"User Commands\"\n" +
              ".SH NAME\nadaact \\- train, measure and compare with AdaAct and its rivals\n" +
              ".SH SYNOPSIS\n" + bold("adaact") + " " + italic("COMMAND") + " [" +
              italic("options") + "]\n.br\n" + bold("adaact help") + " [" + italic("COMMAND") +
              "]\n.SH DESCRIPTION\n" + roff(app.get_description()) + ".\n.SH COMMANDS\n";
  for (const auto* command : commands_of(app)) text += command_section(*command);
  return text + kEnd;
}

}  // namespace adaact::app
