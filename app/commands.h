#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace adaact::app {

/// The group of options that the help names and the documentation describes.
inline constexpr char kRecipeOptions[] = "Recipe";

// Every subcommand has one of these functions in a file of its own. It adds the subcommand, which
// sets the exit code when it is chosen.
void add_train_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app, int& exit_code);
void add_predict_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_sweep_command(CLI::App& app, int& exit_code);
void add_find_lr_command(CLI::App& app, int& exit_code);
void add_report_command(CLI::App& app, int& exit_code);
void add_reproduce_command(CLI::App& app, int& exit_code);
void add_pack_command(CLI::App& app, int& exit_code);
void add_info_command(CLI::App& app, int& exit_code);
void add_export_command(CLI::App& app, int& exit_code);
void add_help_command(CLI::App& app, int& exit_code);
void add_completion_command(CLI::App& app, int& exit_code);

/// A line for the user, on the channel for errors.
void print_message(const std::string& line);
/// A line for the user about what is no error, on the same channel. Prints nothing after
/// silence_notices().
void print_notice(const std::string& line);
void silence_notices();
bool notices_are_wanted();

}  // namespace adaact::app
