#include "train_block.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "io/joined.h"
#include "io/json_text.h"
#include "io/printable.h"
#include "padded.h"
#include "report/format.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLabelWidth = 11;
constexpr std::size_t kBlockWidth = 100;

std::string plural(std::int64_t count, const std::string& thing) {
  return grouped(count) + " " + thing + (count == 1 ? "" : "s");
}

/// A label and words behind it; lines that follow are indented.
std::string labelled(const std::string& label, const std::vector<std::string>& words) {
  auto text = padded(label, kLabelWidth);
  auto column = kLabelWidth;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = words[i] + (i + 1 < words.size() ? "," : "");
    const auto width = letters_in(word);
    if (i > 0 && column + 1 + width > kBlockWidth) {
      text += "\n" + std::string(kLabelWidth, ' ');
      column = kLabelWidth;
    } else if (i > 0) {
      text += " ";
      ++column;
    }
    text += word;
    column += width;
  }
  return text + "\n";
}

std::vector<std::string> data_words(const Trainer& trainer) {
  const auto& train = trainer.train_data().dataset();
  const auto& test = trainer.test_data().dataset();
  const auto& shape = train.shape();
  return {train.name() + ": " + plural(train.size(), "image") + " to train",
          grouped(test.size()) + " to test",
          grouped(train.classes()) + (train.classes() == 1 ? " class" : " classes"),
          std::to_string(shape.channels) + "×" + std::to_string(shape.height) + "×" +
              std::to_string(shape.width)};
}

/// What was left out of the data, and why.
std::string remark_lines(const Trainer& trainer) {
  std::string lines;
  for (const auto* data : {&trainer.train_data().dataset(), &trainer.test_data().dataset()}) {
    for (const auto& remark : data->info().remarks) lines += labelled("", {printable(remark)});
  }
  return lines;
}

std::int64_t parameters_of(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::vector<std::string> model_words(const RunConfig& config, const Trainer& trainer) {
  std::vector<std::string> words{config.model,
                                 grouped(parameters_of(trainer.model())) + " parameters"};
  if (!config.batchnorm) words.emplace_back("without batch normalisation");
  if (!config.weights.empty()) words.push_back("from " + printable(config.weights));
  return words;
}

std::vector<std::string> device_words(const RunConfig& config, const Trainer& trainer) {
  const auto ranks = trainer.train_data().options().parts;
  const auto threads = plural(config.threads, "thread");
  std::vector<std::string> words{config.device,
                                 ranks == 1 ? threads : plural(ranks, "rank") + " of " + threads,
                                 config.precision};
  if (config.memory_format != "contiguous") words.push_back(config.memory_format);
  if (config.deterministic) words.emplace_back("deterministic");
  return words;
}

std::string option_value(const ordered_json& value) {
  if (value.is_number_float()) return rounded(value.get<double>());
  if (value.is_null()) return "unlimited";
  if (!value.is_array()) return value.is_string() ? value.get<std::string>() : value.dump();
  std::string list;
  for (const auto& each : value) list += (list.empty() ? "" : "/") + option_value(each);
  return list;
}

/// The learning rate first: it is what people change.
std::vector<std::string> optimizer_words(const RunConfig& config) {
  const auto options =
      parse_json<ordered_json>(config.optimizer_options, "the optimizer's options");
  std::vector<std::string> words;
  for (const auto& [name, value] : options.items()) {
    if (name == "non_finite_policy") continue;  // what a step does that cannot be taken
    const auto at = name == "lr" ? words.begin() : words.end();
    words.insert(at, name + " " + option_value(value));
  }
  if (!config.decay_vectors) words.emplace_back("no decay of vectors");
  if (words.empty()) return {config.optimizer};
  words.front() = config.optimizer + ": " + words.front();
  return words;
}

std::vector<std::string> step_words(const RunConfig& config, const Trainer& trainer) {
  const auto images = config.batch_size * config.accumulation;
  std::vector<std::string> words{
      plural(config.epochs, "epoch") + " of " + plural(trainer.steps_per_epoch(), "step"),
      plural(images, "image") + " a step"};
  if (config.patience > 0) {
    words.push_back("ended by " + plural(config.patience, "epoch") +
                    " without a better test top-1");
  }
  return words;
}

std::vector<std::string> place_words(const std::string& out,
                                     const std::vector<std::uint64_t>& seeds) {
  std::vector<std::string> words{printable(out)};
  for (const auto seed : seeds) words.push_back("seed " + std::to_string(seed));
  return words;
}

}  // namespace

std::string schedule_text(const RunConfig& config) {
  const auto over = " over " + plural(config.epochs, "epoch");
  std::string text = config.schedule;
  if (config.schedule == "cosine") text = "cosine" + over;
  if (config.schedule == "cosine-per-step") text = "cosine" + over + ", lowered in each step";
  if (config.schedule == "step") {
    text = "a tenth after each " + plural(config.milestones.at(0), "epoch");
  }
  if (config.schedule == "multistep") {
    std::vector<std::string> epochs;
    for (const auto milestone : config.milestones) epochs.push_back(std::to_string(milestone));
    text = "a tenth after epochs " + joined(epochs);
  }
  if (config.final_lr_factor > 0.0) text += ", down to " + rounded(config.final_lr_factor);
  if (config.warmup_epochs > 0)
    text += ", after " + plural(config.warmup_epochs, "epoch") + " of warm-up";
  return text;
}

std::string train_block(const RunConfig& config, const std::string& out,
                        const std::vector<std::uint64_t>& seeds, const Trainer& trainer) {
  return labelled("data", data_words(trainer)) + remark_lines(trainer) +
         labelled("model", model_words(config, trainer)) +
         labelled("device", device_words(config, trainer)) +
         labelled("optimizer", optimizer_words(config)) +
         labelled("schedule", {schedule_text(config)}) +
         labelled("training", step_words(config, trainer)) +
         labelled(seeds.empty() ? "run" : "runs", place_words(out, seeds)) + "\n";
}

}  // namespace adaact::app
