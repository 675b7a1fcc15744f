#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace adaact::app {

// One file for each. Each adds its subcommand; what it does when chosen sets the exit code.
void add_train_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app, int& exit_code);
void add_predict_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_report_command(CLI::App& app, int& exit_code);
void add_reproduce_command(CLI::App& app, int& exit_code);
void add_info_command(CLI::App& app, int& exit_code);

/// A line for the user, on the channel for errors.
void print_message(const std::string& line);
/// The same for what is no error: nothing after silence_notices().
void print_notice(const std::string& line);
void silence_notices();

}  // namespace adaact::app
