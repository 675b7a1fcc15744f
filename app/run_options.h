#pragma once

#include <charconv>
#include <cstdint>
#include <string>

#include <adaact/train/run_config.h>
#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include "commands.h"

namespace adaact::app {

/// An option whose default the help shows.
template <typename Value>
CLI::Option* add_option(CLI::App& command, const std::string& name, Value& value,
                        const std::string& text) {
  return command.add_option(name, value, text)->capture_default_str();
}

/// A flag that makes a value false which is true without it.
inline void add_off_switch(CLI::App& command, const std::string& name, bool& value,
                           const std::string& text) {
  command.add_flag_callback(
      name, [&value] { value = false; }, text);
}

inline void add_image_work_option(CLI::App& command, std::string& image_work) {
  add_option(command, "--image-work", image_work, "Of photographs on a GPU: cpu, gpu or nvjpeg");
}

/// Refuses -1 and numbers that are too large, which CLI11 would take for the largest one there is.
inline CLI::Validator not_negative() {
  const auto check = [](const std::string& text) -> std::string {
    std::uint64_t number = 0;
    const auto* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end) return {};
    return "is " + text + ", expected a whole number ≥ 0 that fits 64 bits";
  };
  return CLI::Validator(check, "");
}

/// The wanted device, or the CPU and a notice where a GPU is wanted and there is none.
inline std::string device_to_use(const std::string& wanted) {
  auto device = available_device(wanted);
  if (device != wanted) {
    print_notice("device is '" + wanted +
                 "', but LibTorch finds no GPU here: the CPU takes its place");
  }
  return device;
}

/// Puts device_to_use() into the options of a run or of a benchmark; true if the CPU has taken the
/// place of a GPU.
template <typename Options>
bool use_available_device(Options& options) {
  const auto device = device_to_use(options.device);
  if (device == options.device) return false;
  options.device = device;
  if (options.precision == "tf32") options.precision = "fp32";
  return true;
}
inline void use_available_device_of_run(RunConfig& config) {
  if (use_available_device(config)) config.deterministic = false;  // as the CPU always is
}

/// The value of an option that takes "on" or "off".
inline bool is_on(const char* name, const std::string& value) {
  TORCH_CHECK_VALUE(value == "on" || value == "off", name, " is '", value, "', expected on or off");
  return value == "on";
}

/// What training and evaluation must agree on.
inline void add_model_and_data_options(CLI::App& command, RunConfig& config) {
  add_option(command, "--model", config.model, "adaact info lists them; auto: to fit the data");
  add_off_switch(command, "--no-batchnorm", config.batchnorm, "Without batch normalisation");
  add_option(command, "--dataset", config.dataset, "adaact info lists them; auto: by --data-dir");
  command.add_option("--data-dir", config.data_dir, "Where the data are");
  add_option(command, "--image-size", config.image_size, "Side of the images; 0: to fit");
  add_option(command, "--resize-size", config.resize_size,
             "Of an image folder, before the centre crop");
  add_option(command, "--crop-ratio", config.crop_ratio, "Image size / resize size, in its place");
  add_option(command, "--limit-test", config.limit_test, "Test on so many images; 0: all");
  command.add_flag("--skip-bad-images", config.skip_bad_images,
                   "Leave out images that cannot be decoded");
  add_option(command, "--batch-size", config.batch_size, "Images a batch")->default_str("to fit");
  add_option(command, "--seed", config.seed, "Of everything random")->check(not_negative());
  add_option(command, "--device", config.device, "cpu, cuda or cuda:N");
  add_option(command, "--precision", config.precision, "fp32, tf32 or bf16");
  add_option(command, "--memory-format", config.memory_format, "contiguous or channels-last");
  command.add_flag("--deterministic", config.deterministic, "On a GPU, where it costs time");
  add_option(command, "--threads", config.threads, "Threads that compute; 0: one for each core");
  add_option(command, "--validation", config.validation,
             "Share of an image folder without val/ to test");
}

}  // namespace adaact::app
