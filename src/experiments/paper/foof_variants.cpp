#include <cmath>

#include "experiments/page/curves.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/settings_comparison.h"
#include "report/format.h"

namespace adaact {
namespace {

constexpr char kPapersText[] = "the paper's text";
constexpr char kAuthorsCode[] = "the authors' code";
/// Of Table 1: ResNet-20 on CIFAR-10, a fraction, and the standard error of its mean.
constexpr OverSeeds kPapersFoof{0.9179, 0.0009, 5, 5};

/// Whether the paper's number is nearer to what the authors' code does than to what the text says.
Finding explained_by_code(const std::vector<RunSeries>& all) {
  const auto text = final_over_seeds(series_named(kPapersText, all));
  const auto code = final_over_seeds(series_named(kAuthorsCode, all));
  const OverSeeds distance_of_text{std::abs(text.mean - kPapersFoof.mean), text.standard_error,
                                   text.seeds, text.most_seeds};
  const OverSeeds distance_of_code{std::abs(code.mean - kPapersFoof.mean), code.standard_error,
                                   code.seeds, code.most_seeds};
  const auto [verdict, reason] =
      judge({{"the distances from the paper's number", distance_of_text - distance_of_code}});
  return {"FOOF's 91.79 % of Table 1 is what the authors' code comes to, and not the paper's text.",
          "The text " + percent(text.mean) + ", the code " + percent(code.mean) + "." + reason,
          verdict};
}

std::vector<Finding> foof_findings(const std::vector<RunSeries>& all) {
  return {explained_by_code(all)};
}

SettingsComparison foof_comparison() {
  SettingsComparison foof;
  foof.name = "foof-variants";
  foof.title = "FOOF: the paper's text and the authors' code";
  foof.shows = "ResNet-20: what the two come to, beside Table 1's number";
  foof.file_prefix = "foof_variants";
  foof.paragraphs = {
      "The authors' own FOOF is another algorithm than the paper's text: its moving average gives "
      "the newest covariance the weight 0.95 and the past 0.05, starts at the identity, divides by "
      "a bias correction whose counter grows with every layer of every pass, and keeps the "
      "identity as the inverse until the first T_inv steps are over."};
  foof.settings = {{kPapersText, "foof", {{"scale", "paper"}}},
                   {kAuthorsCode, "foof", {{"scale", "authors"}}}};
  foof.findings = foof_findings;
  return foof;
}

}  // namespace

const Experiment& foof_variants() {
  static const ComparedSettings experiment(foof_comparison());
  return experiment;
}

}  // namespace adaact
