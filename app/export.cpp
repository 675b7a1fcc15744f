#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <adaact/train/export.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "run_files.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

struct ExportArguments {
  std::string run;
  std::string weights;
  std::string file;
  bool overwrite = false;
  OutputOptions output;
};

struct Format {
  const char* name;
  std::function<ExportReport(const fs::path& weights, const fs::path& out)> write;
};

/// The format that the ending of a file's name asks for.
Format format_of(const std::string& file) {
  const auto ending = fs::path(file).extension().string();
  if (ending == ".pt") return {"torchscript", export_torchscript};
  if (ending == ".safetensors") return {"safetensors", export_safetensors};
  throw CLI::ValidationError("file", "is '" + file +
                                         "', expected a name that ends in .pt (TorchScript) or "
                                         ".safetensors");
}

ordered_json to_json(const ExportArguments& arguments, const Format& format,
                     const ExportReport& report) {
  const auto& shape = report.card.data.shape;
  ordered_json object{{"file", arguments.file},
                      {"format", format.name},
                      {"bytes", report.bytes},
                      {"model", report.card.model},
                      {"classes", report.card.data.class_names},
                      {"input", {shape.channels, shape.height, shape.width}}};
  if (report.images_compared > 0) {
    object["images_compared"] = report.images_compared;
    object["largest_difference"] = report.largest_difference;
  }
  return object;
}

void print_export(const ExportArguments& arguments, const Format& format,
                  const ExportReport& report) {
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Json) print_json(to_json(arguments, format, report));
  if (verbosity != Verbosity::Normal) return;
  const auto& shape = report.card.data.shape;
  std::printf("%s: %s for %zu classes as %s, %.1f MB\n", arguments.file.c_str(),
              report.card.model.c_str(), report.card.data.class_names.size(), format.name,
              static_cast<double>(report.bytes) / 1e6);
  if (report.images_compared == 0) return;
  std::printf("takes images (N, %ld, %ld, %ld) in [0, 1], returns logits (N, %zu)\n",
              shape.channels, shape.height, shape.width, report.card.data.class_names.size());
  std::printf("checked against the run's own outputs: %ld images, largest difference %.1e\n",
              report.images_compared, report.largest_difference);
}

void export_model(const ExportArguments& arguments) {
  if (arguments.run.empty() && arguments.weights.empty()) {
    throw CLI::RequiredError("--run or --weights");
  }
  const auto format = format_of(arguments.file);
  const fs::path weights =
      arguments.run.empty() ? fs::path(arguments.weights) : weights_of_run(arguments.run);
  TORCH_CHECK(!fs::is_directory(arguments.file), arguments.file,
              " is a folder, expected the name of a file");
  TORCH_CHECK(arguments.overwrite || !fs::exists(arguments.file), arguments.file,
              " exists already; name another file, or --overwrite replaces it");
  std::error_code not_there;
  TORCH_CHECK(!fs::equivalent(weights, arguments.file, not_there), arguments.file,
              " is what is to be exported; name another file");
  print_export(arguments, format, format.write(weights, arguments.file));
}

}  // namespace

void add_export_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ExportArguments>();
  auto* command = app.add_subcommand("export", "Write a trained model for other programs");
  auto* run = command->add_option("--run", arguments->run, "Folder of a finished run");
  command->add_option("--weights", arguments->weights, "Weights that a run wrote, instead")
      ->excludes(run);
  command->add_option("file", arguments->file, "*.pt: TorchScript; or *.safetensors")->required();
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file if it exists");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &exit_code] {
    if (arguments->output.quiet) silence_notices();
    export_model(*arguments);
    exit_code = 0;
  });
}

}  // namespace adaact::app
