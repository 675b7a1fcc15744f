// Trains a small network to tell two noisy rings apart, then saves the optimizer's state, loads it
// into a second optimizer and shows that both take the same next step.
#include <adaact/adaact.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace {

double train_step(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                  const torch::Tensor& points, const torch::Tensor& labels) {
  optimizer.zero_grad();
  const auto loss = torch::cross_entropy_loss(model->forward(points), labels);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

}  // namespace

int main() {
  torch::manual_seed(0);

  // Class 0 has radius 1, class 1 has radius 2.
  const auto labels = torch::randint(0, 2, {512}, torch::kLong);                      // (512)
  const auto angle = 2 * M_PI * torch::rand({512});                                   // (512)
  const auto radius = 1 + labels + 0.15 * torch::randn({512});                        // (512)
  const auto points = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);  // (512, 2)

  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::ReLU(),
                              torch::nn::Linear(32, 32), torch::nn::ReLU(),
                              torch::nn::Linear(32, 2));

  // The one line that differs. With Adam it would be
  //   torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.1));

  for (int step = 1; step <= 200; ++step) {
    const auto loss = train_step(model, optimizer, points, labels);
    if (step == 1 || step % 50 == 0) std::printf("step %3d  loss %.4f\n", step, loss);
  }
  double accuracy = 0;
  {
    torch::NoGradGuard no_grad;  // AdaAct observes what is used with gradients, so not this
    const auto predicted = model->forward(points).argmax(1);
    accuracy = predicted.eq(labels).to(torch::kDouble).mean().item<double>();
  }
  std::printf("accuracy %.3f\n\n", accuracy);

  std::printf("%-10s %-9s %s\n", "parameter", "observed", "reason");
  for (const auto& parameter : optimizer.coverage()) {
    std::printf("%-10s %-9s %s\n", parameter.name.c_str(), parameter.observed ? "yes" : "no",
                parameter.reason.c_str());
  }

  // A state file holds the optimizer alone; the model's parameters are copied with the model.
  const auto file = std::filesystem::temp_directory_path() /
                    ("quick_start_" + std::to_string(getpid()) + ".safetensors");
  optimizer.named_state().save(file);
  torch::nn::Sequential copy(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone()));
  adaact::AdaAct resumed(*copy, adaact::AdaActOptions(0.1));
  resumed.named_state().load(file);
  std::filesystem::remove(file);

  train_step(model, optimizer, points, labels);
  train_step(copy, resumed, points, labels);
  bool same = true;
  for (const auto& parameter : model->named_parameters()) {
    same = same && torch::equal(parameter.value(), copy->named_parameters()[parameter.key()]);
  }
  std::printf("\nthe next step of the saved and of the loaded optimizer: %s\n",
              same ? "the same" : "different");
  return accuracy >= 0.95 && same ? 0 : 1;
}
