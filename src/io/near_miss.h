#pragma once

#include <string>
#include <vector>

namespace adaact {

/// "; did you mean 'lenet5'?" for a word that was mistyped, and nothing for one that is like none of
/// the known words.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace adaact
