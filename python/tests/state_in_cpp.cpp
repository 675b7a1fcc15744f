// The other side of test_state_files.py: an optimizer of the C++ library over a model with the same names.
//
//   state_in_cpp take OPTIMIZER STATE   trains a few steps and writes the state
//   state_in_cpp pass OPTIMIZER STATE   reads the state and writes it again
#include <iostream>
#include <string>

#include <adaact/adaact.h>
#include <torch/torch.h>

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::string task = arguments[1];
  const std::string path = arguments[3];
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 2));
  const auto optimizer = adaact::make_optimizer(arguments[2], *model);
  try {
    if (task == "pass") {
      adaact::named_state(*optimizer).load(path);
    } else {
      for (int step = 0; step < 3; ++step) {
        const auto x = torch::randn({5, 4});
        optimizer->step([&] {
          optimizer->zero_grad();
          const auto loss = model->forward(x).sin().mean();
          loss.backward();
          return loss;
        });
      }
    }
    adaact::named_state(*optimizer).save(path);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
