// Fits y = sin(x) with a small network, to show that an installed adaact can be built against.
#include <adaact/adaact.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(1, 16), torch::nn::Tanh(),
                              torch::nn::Linear(16, 1));
  adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.05));

  const auto x = torch::linspace(-3, 3, 64).unsqueeze(1);  // (64, 1)
  const auto y = torch::sin(x);
  double first_loss = 0;
  double last_loss = 0;
  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    const auto loss = torch::mse_loss(model->forward(x), y);
    loss.backward();
    optimizer.step();
    last_loss = loss.item<double>();
    if (step == 0) first_loss = last_loss;
  }
  std::printf("loss: %.4f at the first step, %.4f at the last\n", first_loss, last_loss);
  return last_loss < 0.5 * first_loss ? 0 : 1;
}
