// The quick start's network, trained with AdaAct by as many processes as there are:
//
//   mpirun -n 4 ./data_parallel
//
// Each has its part of the points. The losses are those of one process that has them all, here to the last digit that
// is printed, because the network computes in double precision.
#include <adaact/adaact.h>
#include <adaact/ranks/gradient_exchange.h>
#include <adaact/ranks/mpi.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

int main() {
  const auto ranks =
      adaact::started_by_mpirun() ? adaact::mpi_communicator() : adaact::single_process();

  // All ranks draw the same points, and each takes its part. Parts need not be of the same size.
  torch::manual_seed(0);
  const int64_t all = 512;
  const auto all_labels = torch::randint(0, 2, {all}, torch::kLong);                // (512)
  const auto angle = 2 * M_PI * torch::rand({all}, torch::kDouble);                 // (512)
  const auto radius = 1 + all_labels + 0.15 * torch::randn({all}, torch::kDouble);  // (512)
  const auto all_points =
      torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);  // (512, 2)
  const auto begin = all * ranks->rank() / ranks->size();
  const auto end = all * (ranks->rank() + 1) / ranks->size();
  const auto points = all_points.slice(0, begin, end);
  const auto labels = all_labels.slice(0, begin, end);

  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::ReLU(),
                              torch::nn::Linear(32, 32), torch::nn::ReLU(),
                              torch::nn::Linear(32, 2));
  model->to(torch::kDouble);
  adaact::share_parameters(*model, *ranks);

  adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.1));
  optimizer.share_statistics(ranks);
  adaact::GradientExchangeOptions options;
  options.reduction = adaact::GradientExchangeOptions::Reduction::Sum;
  adaact::GradientExchange exchange(*model, ranks, options);

  for (int step = 1; step <= 200; ++step) {
    optimizer.zero_grad();
    const auto own_mean = torch::cross_entropy_loss(model->forward(points), labels);
    const auto loss =
        own_mean * (end - begin) / all;  // this rank's share of the mean over all points
    loss.backward();
    exchange.finish();  // from here on the gradients are those of all points
    optimizer.step();

    const auto loss_of_all = loss.detach().clone();
    ranks->sum({loss_of_all});
    if (ranks->is_first() && (step == 1 || step % 50 == 0)) {
      std::printf("step %3d  loss %.6f\n", step, loss_of_all.item<double>());
    }
  }
}
