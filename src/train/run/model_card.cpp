#include <adaact/train/model_card.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "io/error_text.h"
#include "io/joined.h"
#include "io/json_text.h"

namespace adaact {
namespace {

using nlohmann::json;

std::int64_t number_between(const json& object, const char* field, std::int64_t low,
                            std::int64_t high) {
  const auto value = whole_number(object.at(field), field);
  TORCH_CHECK(value >= low && value <= high, field, " is ", value, ", expected ", low, " to ",
              high);
  return value;
}

/// The numbers of a field, one for each channel.
std::vector<float> numbers_in(const json& object, const char* field, std::int64_t channels) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto numbers = object.at(field).get<std::vector<double>>();
  TORCH_CHECK(static_cast<std::int64_t>(numbers.size()) == channels, field, " has ", numbers.size(),
              " numbers, expected ", channels, ", one for each channel");
  for (const auto number : numbers) {
    TORCH_CHECK(std::abs(number) <= kLargest, field, " has ", number,
                ", expected numbers that float32 can hold");
  }
  return {numbers.begin(), numbers.end()};
}

void read_model(const std::map<std::string, std::string>& metadata, ModelCard& card) {
  card.model = metadata.at("model");
  const auto known = model_names();
  TORCH_CHECK(std::find(known.begin(), known.end(), card.model) != known.end(), "model is '",
              card.model, "', expected one of: ", joined(known));
  const auto& batchnorm = metadata.at("batchnorm");
  TORCH_CHECK(batchnorm == "true" || batchnorm == "false", "batchnorm is '", batchnorm,
              "', expected true or false");
  card.batchnorm = batchnorm == "true";
}

void read_input(const json& input, ModelCard& card) {
  constexpr std::int64_t kMostChannels = 1024;
  const auto channels = number_between(input, "channels", 1, kMostChannels);
  const auto height = number_between(input, "height", 1, kLargestImageSize);
  const auto width = number_between(input, "width", 1, kLargestImageSize);
  TORCH_CHECK(width == height, "width is ", width, ", expected ", height, ", as the height is");
  card.data.shape = {channels, height, width};
  card.resize_size = number_between(input, "resize", 0, kLargestResizeSize);
  card.data.normalization = {numbers_in(input, "mean", channels),
                             numbers_in(input, "std", channels)};
  for (const auto deviation : card.data.normalization.std) {
    TORCH_CHECK(deviation > 0.0F, "std has ", deviation, ", expected numbers > 0");
  }
}

}  // namespace

std::map<std::string, std::string> ModelCard::to_metadata() const {
  const json input{{"channels", data.shape.channels}, {"height", data.shape.height},
                   {"width", data.shape.width},       {"resize", resize_size},
                   {"mean", data.normalization.mean}, {"std", data.normalization.std}};
  return {{"model", model},
          {"batchnorm", batchnorm ? "true" : "false"},
          {"dataset", data.name},
          {"classes", json(data.class_names).dump()},
          {"input", input.dump()}};
}

ModelCard ModelCard::from_metadata(const std::map<std::string, std::string>& metadata,
                                   const std::string& source) {
  ModelCard card;
  try {
    read_model(metadata, card);
    card.data.name = metadata.at("dataset");
    card.data.class_names =
        parse_json<json>(metadata.at("classes"), "classes").get<std::vector<std::string>>();
    TORCH_CHECK(!card.data.class_names.empty(), "classes are none, expected one at least");
    read_input(parse_json<json>(metadata.at("input"), "input"), card);
  } catch (const std::out_of_range&) {
    TORCH_CHECK(false, "adaact: ", source,
                " does not say what model it is for; expected weights that `adaact train` wrote");
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: what ", source,
                " says about its model cannot be followed: ", error_text_within_line(error));
  }
  return card;
}

ModelOptions ModelCard::options() const {
  auto options = default_model_options(model);
  options.classes = static_cast<std::int64_t>(data.class_names.size());
  options.channels = data.shape.channels;
  options.image_size = data.shape.height;
  options.batchnorm = batchnorm;
  return options;
}

std::shared_ptr<Model> ModelCard::build() const { return make_model(model, options()); }

}  // namespace adaact
