#include <adaact/train/model_card.h>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

namespace adaact {
namespace {

using nlohmann::json;

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
    card.model = metadata.at("model");
    card.batchnorm = metadata.at("batchnorm") == "true";
    card.data.name = metadata.at("dataset");
    card.data.class_names = json::parse(metadata.at("classes")).get<std::vector<std::string>>();
    const auto input = json::parse(metadata.at("input"));
    card.data.shape = {input.at("channels"), input.at("height"), input.at("width")};
    card.resize_size = input.at("resize");
    card.data.normalization = {input.at("mean").get<std::vector<float>>(),
                               input.at("std").get<std::vector<float>>()};
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: ", source,
                " does not say what model it is for; expected weights that `adaact train` wrote (",
                error.what(), ")");
  }
  return card;
}

std::shared_ptr<Model> ModelCard::build() const {
  auto options = default_model_options(model);
  options.classes = static_cast<std::int64_t>(data.class_names.size());
  options.channels = data.shape.channels;
  options.image_size = data.shape.height;
  options.batchnorm = batchnorm;
  return make_model(model, options);
}

}  // namespace adaact
