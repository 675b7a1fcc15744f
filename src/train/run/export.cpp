#include <adaact/train/export.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <adaact/models/weights.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/torch.h>

#include "io/atomic_file.h"
#include "models/torchscript.h"
#include "train/run/trained_model.h"

namespace adaact {
namespace {

/// Relative to the largest logit, or 1 if all are smaller.
constexpr double kMostDifference = 1e-5;

/// Batches in which the exported module is compared; the trace is made with another size.
constexpr std::int64_t kComparedBatches[] = {1, 2, 7};
constexpr std::int64_t kTracedBatch = 3;

ScriptAttributes attributes_of(const ModelCard& card) {
  const auto doubles = [](const std::vector<float>& numbers) {
    return c10::List<double>(std::vector<double>(numbers.begin(), numbers.end()));
  };
  return {{"model", card.model},
          {"classes", c10::List<std::string>(card.data.class_names)},
          {"channels", card.data.shape.channels},
          {"image_size", card.data.shape.height},
          {"resize_size", std::max(card.resize_size, card.data.shape.height)},
          {"mean", doubles(card.data.normalization.mean)},
          {"std", doubles(card.data.normalization.std)}};
}

/// Images whose values do not depend on what the process has drawn before.
class MadeUpImages {
 public:
  explicit MadeUpImages(const ImageShape& shape) : shape_(shape) {}

  torch::Tensor batch(std::int64_t images) {
    return torch::rand({images, shape_.channels, shape_.height, shape_.width}, generator_);
  }

 private:
  ImageShape shape_;
  at::Generator generator_ = at::detail::createCPUGenerator(/*seed_val=*/0);
};

/// A model that diverged is of no use to anybody.
void check_finite(const Model& model, const std::string& source) {
  for (const auto& [name, tensor] : state_tensors(model)) {
    TORCH_CHECK(torch::isfinite(tensor).all().item<bool>(), "adaact: '", name, "' in ", source,
                " holds a number that is not finite: the model has diverged");
  }
}

void check_state(const torch::jit::Module& script, const Model& model) {
  std::map<std::string, torch::Tensor> there;
  for (const auto& parameter : script.named_parameters()) there[parameter.name] = parameter.value;
  for (const auto& buffer : script.named_buffers()) there[buffer.name] = buffer.value;
  for (const auto& [name, tensor] : state_tensors(model)) {
    const auto found = there.find(name);
    TORCH_CHECK(found != there.end() && torch::equal(found->second, tensor),
                "adaact: the exported module does not hold ", name, " as the model does");
    there.erase(found);
  }
  TORCH_CHECK(there.empty(), "adaact: the exported module holds ", there.begin()->first,
              ", which the model has not");
}

void compare_outputs(torch::jit::Module& script, TrainedModel& trained, ExportReport& report) {
  MadeUpImages made_up(trained.card.data.shape);
  for (const auto size : kComparedBatches) {
    const auto images = made_up.batch(size);
    const auto expected =
        trained.model->forward(normalised_images(images, trained.card.data.normalization));
    const auto actual = script.forward({images}).toTensor();
    TORCH_CHECK(actual.sizes() == expected.sizes(), "adaact: the exported module returns ",
                actual.sizes(), " for ", size, " images, the model ", expected.sizes());
    const auto largest = std::max(1.0, expected.abs().max().item<double>());
    const auto difference = (actual - expected).abs().max().item<double>() / largest;
    TORCH_CHECK(difference <= kMostDifference,
                "adaact: the exported module differs from the model by ", difference,
                ", expected at most ", kMostDifference);
    report.largest_difference = std::max(report.largest_difference, difference);
    report.images_compared += size;
  }
}

}  // namespace

ExportReport export_torchscript(const std::filesystem::path& weights,
                                const std::filesystem::path& out) {
  auto trained = read_trained_model(weights);
  check_finite(*trained.model, weights.string());
  const auto& normalization = trained.card.data.normalization;
  const auto script = traced_module(
      *trained.model, MadeUpImages(trained.card.data.shape).batch(kTracedBatch),
      [&](const torch::Tensor& images) { return normalised_images(images, normalization); },
      attributes_of(trained.card));
  std::ostringstream written;
  script.save(written);
  const auto bytes = written.str();

  const torch::NoGradGuard no_grad;
  ExportReport report;
  report.card = trained.card;
  report.bytes = bytes.size();
  std::istringstream to_read(bytes);
  auto loaded = torch::jit::load(to_read);
  check_state(loaded, *trained.model);
  compare_outputs(loaded, trained, report);
  write_file_atomically(out, bytes);
  return report;
}

ExportReport export_safetensors(const std::filesystem::path& weights,
                                const std::filesystem::path& out) {
  const auto trained = read_trained_model(weights);
  save_weights(*trained.model, out, trained.card.to_metadata());
  ExportReport report;
  report.card = trained.card;
  report.bytes = std::filesystem::file_size(out);
  return report;
}

}  // namespace adaact
