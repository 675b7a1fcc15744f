#include "io/near_miss.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace adaact {
namespace {

/// How many letters must be changed, added, left out or swapped with a neighbour.
std::size_t edit_distance(const std::string& from, const std::string& to) {
  std::vector<std::size_t> before_last(to.size() + 1);
  std::vector<std::size_t> last(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t changed = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + changed});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[to.size()];
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const auto tolerated = std::max<std::size_t>(1, word.size() / 3);
  const std::string* nearest = nullptr;
  std::size_t smallest = tolerated + 1;
  for (const auto& each : known) {
    // The distance is at least the difference in length: a word of megabytes is not compared.
    if (word.size() > each.size() + tolerated) continue;
    const auto distance = edit_distance(word, each);
    if (distance < smallest) {
      smallest = distance;
      nearest = &each;
    }
  }
  return nearest == nullptr ? "" : "; did you mean '" + *nearest + "'?";
}

}  // namespace adaact
