#include <adaact/train/test_details.h>

#include <algorithm>
#include <limits>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "io/base64.h"
#include "io/error_text.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

/// The longest text that a picture in base64 may be. A PNG of its size without any compression has half of it.
constexpr std::size_t kLongestPicture = 32768;
constexpr std::int64_t kMostImages = std::int64_t{1} << 40;

std::int64_t number_up_to(const ordered_json& value, const char* name, std::int64_t most) {
  const auto number = whole_number(value, name);
  TORCH_CHECK(number >= 0 && number <= most, name, " is ", number, ", expected 0 to ", most);
  return number;
}

TestDetails::Confusion confusion_from(const ordered_json& entry, std::int64_t last_class) {
  TORCH_CHECK(entry.is_array() && entry.size() == 3,
              "an entry of confusions is no list of class, prediction and images");
  return {number_up_to(entry[0], "class", last_class),
          number_up_to(entry[1], "prediction", last_class),
          number_up_to(entry[2], "images", kMostImages)};
}

TestDetails::WrongImage wrong_image_from(const ordered_json& entry, std::int64_t last_class) {
  TestDetails::WrongImage image;
  image.index = number_up_to(entry.at("index"), "index", kMostImages);
  image.label = number_up_to(entry.at("class"), "class", last_class);
  image.predicted = number_up_to(entry.at("prediction"), "prediction", last_class);
  image.probability = entry.at("probability").get<double>();
  TORCH_CHECK(image.probability >= 0.0 && image.probability <= 1.0, "probability is ",
              image.probability, ", expected 0 to 1");
  image.png = entry.at("png").get<std::string>();
  TORCH_CHECK(image.png.size() <= kLongestPicture && is_base64(image.png),
              "png is no picture as base64 of at most ", kLongestPicture, " letters");
  return image;
}

TestDetails details_from(const ordered_json& object) {
  TestDetails details;
  object.at("classes").get_to(details.classes);
  TORCH_CHECK(!details.classes.empty(), "classes are empty, expected one at least");
  const auto last_class = static_cast<std::int64_t>(details.classes.size()) - 1;
  const auto list_of = [&](const char* name) -> const ordered_json& {
    const auto& list = object.at(name);
    TORCH_CHECK(list.is_array(), name, " is no list");
    return list;
  };
  for (const auto& entry : list_of("confusions")) {
    details.confusions.push_back(confusion_from(entry, last_class));
  }
  for (const auto& entry : list_of("most_wrong")) {
    details.most_wrong.push_back(wrong_image_from(entry, last_class));
  }
  return details;
}

}  // namespace

double TestDetails::OfClass::accuracy() const {
  if (images == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(right) / static_cast<double>(images);
}

std::vector<TestDetails::OfClass> TestDetails::by_class() const {
  std::vector<OfClass> all(classes.size());
  for (const auto& each : confusions) {
    auto& of_class = all[static_cast<std::size_t>(each.label)];
    of_class.images += each.images;
    if (each.label == each.predicted) of_class.right += each.images;
  }
  return all;
}

std::vector<TestDetails::Confusion> TestDetails::mistakes() const {
  std::vector<Confusion> all;
  for (const auto& each : confusions) {
    if (each.label != each.predicted && each.images > 0) all.push_back(each);
  }
  std::stable_sort(all.begin(), all.end(), [](const Confusion& one, const Confusion& other) {
    return one.images > other.images;
  });
  return all;
}

std::vector<std::int64_t> TestDetails::matrix() const {
  std::vector<std::int64_t> counts(classes.size() * classes.size());
  for (const auto& each : confusions) {
    const auto row = static_cast<std::size_t>(each.label);
    counts[row * classes.size() + static_cast<std::size_t>(each.predicted)] += each.images;
  }
  return counts;
}

std::string TestDetails::to_json() const {
  ordered_json object{{"classes", classes}};
  auto& pairs = object["confusions"] = ordered_json::array();
  for (const auto& each : confusions) pairs.push_back({each.label, each.predicted, each.images});
  auto& images = object["most_wrong"] = ordered_json::array();
  for (const auto& image : most_wrong) {
    images.push_back({{"index", image.index},
                      {"class", image.label},
                      {"prediction", image.predicted},
                      {"probability", image.probability},
                      {"png", image.png}});
  }
  // Names of folders may hold bytes that JSON cannot.
  return object.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace) +
         "\n";
}

TestDetails TestDetails::from_json(const std::string& text, const std::string& source) {
  const auto [object, problem] = try_parse_json<ordered_json>(text);
  TORCH_CHECK(object.is_object(), "adaact: ", source,
              " has no details of a test: ", problem.empty() ? "no JSON object" : problem);
  try {
    return details_from(object);
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: ", source,
                " has no details of a test: ", error_text_within_line(error));
  }
}

std::optional<TestDetails> read_test_details(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  return TestDetails::from_json(read_file(file), file.string());
}

}  // namespace adaact
