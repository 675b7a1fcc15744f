#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/packed_images.h>
#include <c10/util/Exception.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/error_text.h"
#include "io/printable.h"
#include "output.h"
#include "report/format.h"
#include "status_line.h"
#include "train/run/interrupt.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

struct PackArguments {
  std::string from;
  std::string to;
  std::int64_t shard_megabytes = 256;
  bool skip_bad_images = false;
  bool verify = false;
  OutputOptions output;
};

/// What a signal ends: nothing is left of it.
class Interrupted : public std::exception {};

/// On a terminal a line that counts; Ctrl-C and SIGTERM end the work.
PackProgress make_pack_progress(Verbosity verbosity) {
  const bool draws = verbosity == Verbosity::Normal && ::isatty(STDOUT_FILENO) == 1;
  return [draws](const std::string& folder, std::int64_t images, std::int64_t of_images) {
    if (InterruptGuard::received() != 0) throw Interrupted();
    constexpr std::int64_t kImagesBetween = 256;
    if (!draws || images % kImagesBetween != 0) return;
    draw_status_line((folder.empty() ? "" : folder + ": ") + grouped(images) + " of " +
                     grouped(of_images) + " images");
  };
}

ordered_json to_json(const PackArguments& arguments, const std::vector<PackedFolder>& folders) {
  auto list = ordered_json::array();
  for (const auto& folder : folders) {
    list.push_back({{"folder", folder.name},
                    {"classes", folder.classes},
                    {"images", folder.images},
                    {"shards", folder.shards},
                    {"bytes", folder.bytes},
                    {"remarks", folder.remarks}});
  }
  return {{"shards", arguments.verify ? arguments.from : arguments.to}, {"folders", list}};
}

std::string counted(std::int64_t count, const char* one, const char* several) {
  return grouped(count) + " " + (count == 1 ? one : several);
}

void print_folders(const PackArguments& arguments, const std::vector<PackedFolder>& folders) {
  const std::filesystem::path place = arguments.verify ? arguments.from : arguments.to;
  for (const auto& folder : folders) {
    const auto of_folder = folder.name.empty() ? place : place / folder.name;
    std::printf("%s: %s of %s in %s, %.1f MB%s\n", printable(of_folder.string()).c_str(),
                counted(folder.images, "image", "images").c_str(),
                counted(folder.classes, "class", "classes").c_str(),
                counted(folder.shards, "shard", "shards").c_str(),
                static_cast<double>(folder.bytes) / 1e6,
                arguments.verify ? ", as they were packed" : "");
  }
}

std::vector<PackedFolder> pack_or_verify(const PackArguments& arguments,
                                         const PackProgress& progress) {
  if (arguments.verify) return verify_packed(arguments.from, progress);
  PackOptions options;
  options.from = arguments.from;
  options.to = arguments.to;
  options.shard_bytes = arguments.shard_megabytes * 1'000'000;
  options.skip_bad_images = arguments.skip_bad_images;
  return pack_images(options, progress);
}

void check_pack_arguments(const PackArguments& arguments) {
  constexpr std::int64_t kMostMegabytes = 1'000'000;
  if (arguments.verify && !arguments.to.empty()) {
    throw CLI::ValidationError("out is '" + arguments.to + "', expected none with --verify");
  }
  if (!arguments.verify && arguments.to.empty()) throw CLI::RequiredError("out");
  if (arguments.shard_megabytes < 1 || arguments.shard_megabytes > kMostMegabytes) {
    throw CLI::ValidationError("--shard-size is " + std::to_string(arguments.shard_megabytes) +
                               ", expected 1 to " + std::to_string(kMostMegabytes));
  }
}

int run_pack(const PackArguments& arguments) {
  check_pack_arguments(arguments);
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Quiet) silence_notices();
  const InterruptGuard guard;
  InterruptGuard::set_listener(nullptr);  // an image later the work has ended
  try {
    const auto folders = pack_or_verify(arguments, make_pack_progress(verbosity));
    clear_status_line();
    if (verbosity == Verbosity::Json) print_json(to_json(arguments, folders));
    if (verbosity == Verbosity::Normal) print_folders(arguments, folders);
    for (const auto& folder : folders) {
      for (const auto& remark : folder.remarks) print_notice(remark);
    }
    return 0;
  } catch (const Interrupted&) {
    clear_status_line();
    say(verbosity, arguments.verify ? "interrupted" : "interrupted; nothing was written");
    return 128 + InterruptGuard::received();
  }
}

}  // namespace

void add_pack_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<PackArguments>();
  auto* command = app.add_subcommand("pack", "Copy an image folder into tar shards");
  command->add_option("dir", arguments->from, "The image folder, as --data-dir takes it")
      ->required();
  command->add_option("out", arguments->to, "Folder to make, for --data-dir");
  auto* size =
      command
          ->add_option("--shard-size", arguments->shard_megabytes, "Megabytes of a shard at most")
          ->capture_default_str();
  auto* skip = command->add_flag("--skip-bad-images", arguments->skip_bad_images,
                                 "Leave out images that cannot be decoded");
  command->add_flag("--verify", arguments->verify, "Check that the shards in DIR are as packed")
      ->excludes(size)
      ->excludes(skip);
  add_output_options(*command, arguments->output);
  command->callback([arguments, &exit_code] { exit_code = run_pack(*arguments); });
}

}  // namespace adaact::app
