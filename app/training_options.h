#pragma once

// Options of training that `train`, `sweep` and `find-lr` have in common, beside those of
// run_options.h.

#include <cmath>
#include <string>

#include <adaact/train/run_config.h>
#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "run_options.h"

namespace adaact::app {

/// Adds options of the optimizer to those that the configuration has.
inline void set_optimizer_options(RunConfig& config, const nlohmann::json& given) {
  auto options = parse_json<nlohmann::json>(config.optimizer_options, "optimizer_options");
  options.update(given);
  config.optimizer_options = options.dump();
}

inline void set_optimizer_options(RunConfig& config, const std::string& text) {
  const auto given = try_parse_json<nlohmann::json>(text);
  TORCH_CHECK_VALUE(given.value.is_object(), "optimizer_options is '", text,
                    "', expected a JSON object",
                    given.problem.empty() ? "" : " (" + given.problem + ")");
  set_optimizer_options(config, given.value);
}

/// Puts a number that has an option of its own among the options of the optimizer.
inline void put_optimizer_option(RunConfig& config, const std::string& name, double value) {
  TORCH_CHECK_VALUE(std::isfinite(value), name, " is ", value, ", expected a finite number");
  set_optimizer_options(config, nlohmann::json{{name, value}});
}

/// An option of the optimizer that has a word of its own on the command line. After add_step_options(): it
/// adds to what --optimizer-options say.
inline void add_optimizer_number(CLI::App& command, const std::string& option,
                                 const std::string& name, RunConfig& config,
                                 const std::string& text) {
  command.add_option_function<double>(
      option, [&config, name](const double& value) { put_optimizer_option(config, name, value); },
      text);
}

/// What is done to training images.
inline void add_augmentation_options(CLI::App& command, RunConfig& config) {
  add_off_switch(command, "--no-augment", config.augment, "Neither crop nor flip");
  add_option(command, "--flip", config.flip, "Mirror images: on, off, auto (not digits)");
  add_option(command, "--crop", config.crop, "In training: resized, padded, none, auto")
      ->group(kRecipeOptions);
  command.add_option("--crop-scale", config.crop_scale, "Of resized: shares, as 0.08,1")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kRecipeOptions);
  command
      .add_option_function<std::string>(
          "--rand-augment",
          [&config](const std::string& text) { config.rand_augment = text == "none" ? "" : text; },
          "As rand-m7-mstd0.5-inc1; none")
      ->group(kRecipeOptions);
  add_option(command, "--erase", config.erase, "Probability that a rectangle is erased")
      ->group(kRecipeOptions);
  add_option(command, "--mixup", config.mixup, "Alpha of mixup; 0: none")->group(kRecipeOptions);
  add_option(command, "--cutmix", config.cutmix, "Alpha of CutMix; 0: none")->group(kRecipeOptions);
}

/// What a single step is made of.
inline void add_step_options(CLI::App& command, RunConfig& config) {
  command.add_option("--weights", config.weights, "safetensors to begin with");
  add_option(command, "--drop-path", config.drop_path, "Rate of dropped branches");
  add_option(command, "--limit-train", config.limit_train, "Train on so many images; 0: all");
  add_augmentation_options(command, config);
  command.add_option_function<std::string>(
      "--optimizer-options",
      [&config](const std::string& text) { set_optimizer_options(config, text); },
      "Of the optimizer, as JSON");
  add_off_switch(command, "--no-vector-decay", config.decay_vectors,
                 "No decay of biases, normalisation, tokens");
  add_option(command, "--accumulation", config.accumulation, "Batches a step");
  command.add_flag("--sync-batchnorm", config.sync_batchnorm,
                   "Under mpirun: normalise over all ranks' images");
  command.add_option("--clip-norm", config.clip_norm, "Largest norm of the gradient");
  add_option(command, "--loss", config.loss, "cross-entropy or bce")->group(kRecipeOptions);
  add_option(command, "--label-smoothing", config.label_smoothing,
             "Share of a label spread over all classes");
}

/// How long is trained, how the learning rate changes, and which weights are evaluated.
inline void add_schedule_options(CLI::App& command, RunConfig& config) {
  add_option(command, "--epochs", config.epochs, "Passes over the data")->default_str("to fit");
  add_option(command, "--schedule", config.schedule,
             "constant, step, multistep, cosine(-per-step)");
  command.add_option("--milestones", config.milestones, "Epochs, for step and multistep")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(command, "--final-lr-factor", config.final_lr_factor,
             "What cosine leaves of the learning rate");
  add_option(command, "--min-lr", config.min_lr, "Where cosine ends, in place of that factor")
      ->group(kRecipeOptions);
  add_option(command, "--warmup-epochs", config.warmup_epochs, "Epochs of linear warm-up");
  command.add_option("--warmup-lr", config.warmup_lr, "Where it begins")
      ->default_str("a tenth")
      ->group(kRecipeOptions);
  add_option(command, "--ema", config.ema, "Decay of averaged weights; 0: none")
      ->group(kRecipeOptions);
}

}  // namespace adaact::app
