#pragma once

#include <string>
#include <vector>

namespace adaact {

/// "a, b, c"
inline std::string joined(const std::vector<std::string>& words,
                          const std::string& between = ", ") {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : between) + word;
  return list;
}

}  // namespace adaact
