#include "train/run/rand_augment_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('-', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// A part is a name and a number: "mstd0.5".
class RandAugmentText {
 public:
  explicit RandAugmentText(const std::string& text) : text_(text) {
    auto parts = parts_of(text);
    TORCH_CHECK_VALUE(parts.front() == "rand", "rand_augment is '", text,
                      "', expected to begin with 'rand', as rand-m7-mstd0.5-inc1 does");
    parts.erase(parts.begin());
    for (const auto& part : parts) add(part);
  }

  bool has(const std::string& name) const { return numbers_.count(name) > 0; }

  double number(const std::string& name, double low, double high, double otherwise) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) return otherwise;
    TORCH_CHECK_VALUE(found->second >= low && found->second <= high, "rand_augment is '", text_,
                      "', whose ", name, " is ", found->second, ", expected ", low, " to ", high);
    return found->second;
  }

 private:
  void add(const std::string& part) {
    const auto digits = std::min(part.find_first_of("0123456789."), part.size());
    const auto name = part.substr(0, digits);
    const bool is_known =
        name == "m" || name == "n" || name == "p" || name == "mstd" || name == "inc";
    TORCH_CHECK_VALUE(is_known, "rand_augment is '", text_, "', whose part '", part,
                      "' is not known, expected m, mstd, n, p and inc, each with a number");
    double number = 0.0;
    const auto* end = part.data() + part.size();
    const auto read = std::from_chars(part.data() + digits, end, number, std::chars_format::fixed);
    TORCH_CHECK_VALUE(read.ec == std::errc() && read.ptr == end, "rand_augment is '", text_,
                      "', whose part '", part, "' is not ", name, " with a number");
    TORCH_CHECK_VALUE(numbers_.emplace(name, number).second, "rand_augment is '", text_,
                      "', which has ", name, " twice");
  }

  const std::string& text_;
  std::map<std::string, double> numbers_;
};

}  // namespace

RandAugmentOptions parse_rand_augment(const std::string& text) {
  constexpr double kMostOperations = 15;
  constexpr double kLargestMagnitude = 10;
  const RandAugmentText given(text);
  TORCH_CHECK_VALUE(given.has("m"), "rand_augment is '", text,
                    "', which lacks m, the magnitude, as in rand-m7-mstd0.5-inc1");
  TORCH_CHECK_VALUE(given.number("inc", 0, 1, 0) == 1.0, "rand_augment is '", text,
                    "', which lacks inc1: operations that do not grow with the magnitude are not "
                    "there");
  RandAugmentOptions options;
  options.magnitude = given.number("m", 0, kLargestMagnitude, options.magnitude);
  options.magnitude_std = given.number("mstd", 0, kLargestMagnitude, 0);
  options.probability = given.number("p", 0, 1, options.probability);
  const auto operations =
      given.number("n", 1, kMostOperations, static_cast<double>(options.operations));
  TORCH_CHECK_VALUE(operations == std::floor(operations), "rand_augment is '", text,
                    "', whose n is ", operations, ", expected a whole number");
  options.operations = static_cast<std::int64_t>(operations);
  return options;
}

}  // namespace adaact
