#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <adaact/models/weights.h>
#include <torch/torch.h>

#include "experiments/measure/activation_covariance.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/lenet_variances.h"
#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/machine.h"
#include "io/json_text.h"
#include "report/format.h"
#include "report/heatmap.h"
#include "train/run/run_parts.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kImages = 5'000;

// What the paper's words are taken to mean.
constexpr double kSparse = 0.5;  // related pairs at most
constexpr double kMostOfTheMass = 0.5;

ordered_json to_json(const DiagonalShare& share) {
  return {{"diagonal_mass", share.mass},
          {"diagonal_mass_if_alike", 1.0 / static_cast<double>(share.size)},
          {"median_on_diagonal", share.median_on},
          {"median_off_diagonal", share.median_off},
          {"related_pairs", share.related_pairs}};
}

Measured measure(RunConfig config, const Machine& machine,
                 const std::filesystem::path& model_file) {
  config = on_machine(std::move(config), machine);
  set_up_libtorch(config);
  config.limit_train = config.limit_train == 0 ? kImages : std::min(config.limit_train, kImages);
  const auto data = open_split(config, Split::Train);
  const auto model = build_model(config, *data);
  load_weights(*model, model_file);
  const torch::Device device(config.device);
  model->to(device);
  Loader loader(data, LoaderOptions::evaluation());

  Measured measured;
  measured.values["images"] = data->size();
  for (const auto& [layer, uncentred, centred] : activation_covariances(*model, loader, device)) {
    measured.values["layers"].push_back({{"layer", layer},
                                         {"inputs", uncentred.size(0)},
                                         {"uncentred", to_json(diagonal_share(uncentred))},
                                         {"centred", to_json(diagonal_share(centred))}});
    measured.tensors[layer] = uncentred.to(torch::kFloat32);
  }
  return measured;
}

/// The median of the diagonal to that of the other entries: infinite where the latter is 0. Nothing
/// where both are, as they are if most inputs are never active.
std::optional<double> diagonal_ratio(const ordered_json& share) {
  const auto on = share.at("median_on_diagonal").get<double>();
  const auto off = share.at("median_off_diagonal").get<double>();
  if (on == 0.0 && off == 0.0) return std::nullopt;
  return off == 0.0 ? std::numeric_limits<double>::infinity() : on / off;
}

std::string ratio_text(double ratio) { return std::isinf(ratio) ? "∞" : rounded(ratio); }

std::string ratio_cell(const std::optional<double>& ratio) {
  if (!ratio) return kNothing;
  return std::isinf(*ratio) ? "∞" : decimal(*ratio);
}

Heatmap heatmap_of(const std::string& layer, const torch::Tensor& matrix) {
  TORCH_CHECK(matrix.dim() == 2 && matrix.scalar_type() == torch::kFloat32, "the covariance of '",
              layer, "' is ", matrix.scalar_type(), " ", matrix.sizes(),
              ", expected a matrix of float32");
  const auto values = matrix.abs().contiguous();
  const auto* first = values.data_ptr<float>();
  return {label_of(layer),
          static_cast<std::size_t>(values.size(0)),
          static_cast<std::size_t>(values.size(1)),
          {first, first + values.numel()},
          /*logarithmic=*/true};
}

Table shares_table(const ordered_json& layers) {
  Table table{
      "How far the covariances are diagonal", {{text("Activation"), ""}, {text(""), ""}}, {}};
  for (const char* heading : {"Inputs", "Mass on the diagonal", "If all entries were alike",
                              "Diagonal over others (medians)", "Related pairs"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const auto& layer : layers) {
    for (const char* kind : {"uncentred", "centred"}) {
      const auto& share = layer.at(kind);
      table.rows.push_back(
          {{text(label_of(layer.at("layer").get<std::string>())), ""},
           {text(kind), ""},
           {text(grouped(layer.at("inputs").get<std::int64_t>())), "number"},
           {text(percent(share.at("diagonal_mass").get<double>())), "number"},
           {text(percent(share.at("diagonal_mass_if_alike").get<double>())), "number"},
           {text(ratio_cell(diagonal_ratio(share))), "number"},
           {text(percent(share.at("related_pairs").get<double>())), "number"}});
    }
  }
  return table;
}

void check_layers(const Measured& measured) {
  whole_number(measured.values.at("images"), "images");
  for (const auto& layer : measured.values.at("layers")) {
    const auto name = layer.at("layer").get<std::string>();
    const auto found = measured.tensors.find(name);
    TORCH_CHECK(found != measured.tensors.end(), "there is no covariance of '", name, "'");
    heatmap_of(name, found->second);
  }
  shares_table(measured.values.at("layers"));
}

/// The range of a number over all layers and all seeds.
class Range {
 public:
  void add(const std::string& layer, double value) {
    if (low_.layer.empty() || value < low_.value) low_ = {layer, value};
    if (high_.layer.empty() || value > high_.value) high_ = {layer, value};
  }

  bool is_empty() const { return low_.layer.empty(); }
  double low() const { return low_.value; }
  double high() const { return high_.value; }

  /// "from 1.2 (conv1 out) to 3.4 (fc2 out)"
  std::string to_text(std::string (*format)(double)) const {
    return "from " + format(low_.value) + " (" + low_.layer + ") to " + format(high_.value) + " (" +
           high_.layer + ")";
  }

 private:
  struct End {
    std::string layer;
    double value = 0.0;
  };
  End low_;
  End high_;
};

class CovarianceHeatmap : public Experiment {
 public:
  std::string name() const override { return "fig-covariance-heatmap"; }
  std::string title() const override { return "Figure 2: the activation covariance"; }
  std::string shows() const override {
    return "E[a aᵀ] of the hidden layers of LeNet-5, trained with AdaAct";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    ExperimentPlan plan;
    for (const auto seed : seeds_of(form, {0})) {
      const auto run = lenet_run("adaact", form, seed);
      plan.runs.push_back(run);
      plan.measurements.push_back(
          {"activation covariance",
           {{"images", kImages}, {"related", kRelated}},
           run,
           [config = run.config](const Machine& machine, const std::filesystem::path& model_file,
                                 const auto& /*progress*/) {
             return measure(config, machine, model_file);
           },
           {},
           0.0,
           {},
           check_layers});
    }
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    for (const auto& [planned, measured] : found.measurements) {
      if (!measured) continue;
      const auto seed = std::to_string(planned.of_run->config.seed);
      if (found.measurements.size() > 1) page.add_heading("Seed " + seed);
      const auto& values = measured->values;
      page.add_paragraph(
          "A = E[a aᵀ] of what every layer but the first reads, after training; conv1 out is the "
          "output of conv1 as the next layer reads it. Of a convolution a is a patch, as it is for "
          "AdaAct. The expectation is over the first " +
          grouped(values.at("images").get<std::int64_t>()) +
          " training images, without augmentation.");
      std::vector<Markup> figures;
      for (const auto& layer : values.at("layers")) {
        const auto layer_name = layer.at("layer").get<std::string>();
        figures.push_back(
            page.heatmap(heatmap_of(layer_name, measured->tensors.at(layer_name)),
                         "covariance_" + layer_name + "_seed_" + seed,
                         "|A|; blank where it is 0: on the diagonal an input that is "
                         "never active, elsewhere two that are never active together."));
      }
      page.add_figures(figures);
      page.add_table(shares_table(values.at("layers")));
      page.add_paragraph("Two inputs are related if |A_ij| > " + rounded(kRelated) +
                         " √(A_ii A_jj). Centred: E[a aᵀ] − E[a] E[a]ᵀ.");
    }
  }

  std::vector<Finding> findings(const Found& found) const override {
    Range related;
    Range larger;
    Range mass;
    Range centred_related;
    for (const auto& [planned, measured] : found.measurements) {
      if (!measured) return {};
      for (const auto& layer : measured->values.at("layers")) {
        const auto name = label_of(layer.at("layer").get<std::string>());
        related.add(name, layer.at("uncentred").at("related_pairs").get<double>());
        if (const auto ratio = diagonal_ratio(layer.at("uncentred"))) larger.add(name, *ratio);
        mass.add(name, layer.at("uncentred").at("diagonal_mass").get<double>());
        centred_related.add(name, layer.at("centred").at("related_pairs").get<double>());
      }
    }
    return {{"The activation covariance of LeNet-5's hidden layers is sparse.",
             "Pairs of inputs with |A_ij| > " + rounded(kRelated) + " √(A_ii A_jj): " +
                 related.to_text(percent) + ", centred " + centred_related.to_text(percent) +
                 ". Taken for sparse: at most " + percent(kSparse) + " in every layer, uncentred.",
             verdict_if(related.high() <= kSparse)},
            {"Entries on its diagonal tend to be larger than the others.",
             larger.is_empty() ? "In every layer both medians are 0: most inputs are never active."
                               : "The median of the diagonal is " + larger.to_text(ratio_text) +
                                     " times that of the other entries.",
             larger.is_empty() ? Finding::Verdict::Open : verdict_if(larger.low() > 1.0)},
            {"So a diagonal matrix may stand for it, which is what AdaAct rests on.",
             "Of the sum of all |A_ij| the diagonal holds " + mass.to_text(percent) +
                 ". Taken for enough: " + percent(kMostOfTheMass) + " in every layer.",
             verdict_if(mass.low() >= kMostOfTheMass)}};
  }

  nlohmann::ordered_json to_json(const Found& found) const override {
    auto list = ordered_json::array();
    for (const auto& [planned, measured] : found.measurements) {
      if (!measured) continue;
      auto values = measured->values;
      values["seed"] = planned.of_run->config.seed;
      list.push_back(std::move(values));
    }
    return {{"measurements", list}};
  }
};

}  // namespace

const Experiment& fig_covariance_heatmap() {
  static const CovarianceHeatmap experiment;
  return experiment;
}

}  // namespace adaact
