// config.json of a run, and what is done with it next.

#include <adaact/train/run_config.h>
#include <adaact/train/training_run.h>
#include <c10/util/Exception.h>

#include "experiments/shelf/run_key.h"
#include "fuzz/fuzz_targets.h"

namespace adaact::fuzz {
namespace {

/// What follows tells which field is wrong: the file was named when it was read.
template <typename Use>
void use(const Use& use_config) {
  try {
    use_config();
  } catch (const c10::Error&) {
    // An error in words is what is wanted.
  }
}

void read_run_config(const std::string& bytes) {
  const auto config = RunConfig::from_json(bytes, kInputName);
  const auto written = config.to_json();
  require(RunConfig::from_json(written, "written").to_json() == written,
          "a configuration that was read and written differs from itself");
  use([&] {
    auto without_data = config;
    without_data.data_dir = "";  // folders of this machine would be looked through for images
    without_data.resolve();
  });
  use([&] { key_of(config); });
  use([&] { differences(RunConfig(), config); });
  use([&] { obstacles_to_going_on(RunConfig(), config); });
  use([&] { RunSettings::from_json(bytes, kInputName); });
}

std::vector<Seed> run_config_seeds() {
  RunConfig sam;
  sam.optimizer = "sam";
  sam.optimizer_options = R"({"base": "adam", "rho": 0.1, "betas": [0.9, 0.99]})";
  sam.schedule = "multistep";
  sam.milestones = {1, 2};
  sam.clip_norm = 1.5;
  sam.seed = 18446744073709551615U;
  auto with_settings = RunConfig().to_json();
  with_settings.insert(1, R"("settings": {"save_best": true, "workers": 2},)");
  RunConfig images;
  images.dataset = "image-folder";
  images.model = "resnet20";
  images.image_size = 64;
  images.epochs = 40;
  images.batch_size = 32;
  images.flip = "off";
  images.validation = 0.1;
  return {{"defaults", RunConfig().to_json()},
          {"sam", sam.to_json()},
          {"settings", with_settings},
          {"images", images.to_json()}};
}

}  // namespace

FuzzTarget run_config_target() { return {"run_config", read_run_config, run_config_seeds}; }

}  // namespace adaact::fuzz
