#include "data/shared_findings.h"

#include <sstream>

#include <torch/torch.h>

namespace adaact {
namespace {

/// The defects with their places and lengths: there are few of them.
std::string text_of(const std::vector<std::string>& defects) {
  std::string text;
  for (std::size_t i = 0; i < defects.size(); ++i) {
    if (defects[i].empty()) continue;
    text += std::to_string(i) + " " + std::to_string(defects[i].size()) + "\n" + defects[i];
  }
  return text;
}

void read_defects(const std::string& text, std::vector<std::string>& defects) {
  std::istringstream in(text);
  std::size_t place = 0;
  std::size_t length = 0;
  while (in >> place >> length) {
    in.get();  // the end of the line
    auto& defect = defects.at(place);
    defect.resize(length);
    in.read(defect.data(), static_cast<std::streamsize>(length));
  }
}

}  // namespace

void share_findings(ImageFindings& findings, Communicator& ranks) {
  if (ranks.size() == 1) return;
  const auto fingerprints =
      torch::from_blob(findings.fingerprints.data(),
                       {static_cast<std::int64_t>(findings.fingerprints.size())}, torch::kInt64);
  ranks.sum({fingerprints});  // of numbers of which all but one are 0
  for (const auto& text : ranks.gather(text_of(findings.defects))) {
    read_defects(text, findings.defects);
  }
  findings.has_news = !is_so_on_all_ranks(!findings.has_news, ranks);
}

bool is_so_on_all_ranks(bool own, Communicator& ranks) {
  if (ranks.size() == 1) return own;
  const auto others = torch::full({1}, own ? 0 : 1, torch::kInt64);
  ranks.sum({others});
  return others.item<std::int64_t>() == 0;
}

}  // namespace adaact
