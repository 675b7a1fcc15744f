// Fused layers, each way: what they must read and write, once. Sums over a batch come before what is made of them,
// so what is summed must be read twice; the second time counts as the first.

#include <torch/torch.h>

#include "gpu_kernels/work.h"
#include "layers/batch_norm_cuda.h"
#include "layers/bias_gelu_cuda.h"
#include "layers/layer_norm_cuda.h"

namespace adaact::bench {
namespace {

const std::vector<std::vector<std::int64_t>> kImages{
    {128, 16, 32, 32},  {128, 64, 8, 8},     {128, 64, 32, 32},  {128, 512, 4, 4},
    {128, 512, 16, 16}, {256, 64, 112, 112}, {256, 256, 56, 56}, {256, 2048, 7, 7}};

torch::Tensor image(const std::vector<std::int64_t>& shape) {
  return normal(shape, torch::kBFloat16).contiguous(torch::MemoryFormat::ChannelsLast);
}

struct NormSet {
  torch::Tensor x, residual, gradient, second;
};

Work batch_norm_work(const std::vector<std::int64_t>& shape, bool residual, bool backward) {
  const auto make = [&] {
    return NormSet{image(shape), residual ? image(shape) : torch::Tensor(),
                   backward ? image(shape) : torch::Tensor(),
                   backward && residual ? image(shape) : torch::Tensor()};
  };
  const auto bytes_of = [](const NormSet& set) {
    return static_cast<double>(set.x.nbytes()) * (set.gradient.defined() ? 3 : 2);
  };
  const auto sets = rotating_sets(make, bytes_of);
  const auto options = torch::dtype(torch::kFloat32).device(torch::kCUDA);
  const auto of_channels = [&](double value) { return torch::full({shape[1]}, value, options); };
  const auto weight = of_channels(1.0);
  const auto bias = of_channels(0.1);
  const RunningStatistics running{of_channels(0.0), of_channels(1.0),
                                  torch::zeros({}, torch::dtype(torch::kLong).device(torch::kCUDA)),
                                  0.1};
  Work work;
  const auto& x = sets->front().x;
  if (!backward) {
    work.traffic.add(x, 3);  // read for the sums, read again, written
    if (residual) work.traffic.add(x, 1);
    work.call = [=](std::size_t set) {
      const auto& of = (*sets)[set];
      batch_norm_forward_cuda(of.x, of.residual, weight, bias, running, 1e-5, /*relu=*/true);
    };
  } else {
    // Two gradients, the output and x read, their sum written; that and x read, dx written. Or the gradient and x
    // read twice, dx written.
    work.traffic.add(x, residual ? 8 : 5);
    const auto of_forward = batch_norm_forward_cuda(x, sets->front().residual, weight, bias,
                                                    running, 1e-5, /*relu=*/true);
    work.call = [=](std::size_t set) {
      const auto& of = (*sets)[set];
      const BatchNormPass pass{of.x,
                               residual ? of.residual : torch::Tensor(),
                               of_forward.mean,
                               of_forward.inverse_deviation,
                               weight,
                               bias,
                               true,
                               residual};
      batch_norm_backward_cuda(pass, of.gradient, of.second, {});
    };
  }
  work.sets = sets->size();
  return work;
}

/// Of ViT-S with 256 images.
constexpr std::int64_t kRows = 256 * 197;
constexpr std::int64_t kWidth = 384;

struct RowSet {
  torch::Tensor x, branch, gradient, stream_gradient;
};

Work layer_norm_work(bool backward) {
  const auto make = [&] {
    return RowSet{
        normal({kRows, kWidth}, torch::kFloat32), normal({kRows, kWidth}, torch::kBFloat16),
        normal({kRows, kWidth}, torch::kBFloat16), normal({kRows, kWidth}, torch::kFloat32)};
  };
  const auto sets = rotating_sets(
      make, [](const RowSet& set) { return 3.0 * static_cast<double>(set.x.nbytes()); });
  const auto weight = positive({kWidth});
  const auto bias = positive({kWidth});
  Work work;
  work.sets = sets->size();
  const auto& first = sets->front();
  if (!backward) {
    work.traffic.add(first.x, 2);
    work.traffic.add(first.branch, 2);
    work.call = [=](std::size_t set) {
      layer_norm_forward_cuda((*sets)[set].x, (*sets)[set].branch, bias, weight, bias, 1e-6,
                              torch::kBFloat16);
    };
  } else {
    work.traffic.add(first.x, 3);
    work.traffic.add(first.branch, 2);
    const auto rows =
        layer_norm_forward_cuda(first.x, first.branch, bias, weight, bias, 1e-6, torch::kBFloat16);
    work.call = [=](std::size_t set) {
      auto of = rows;
      of.stream = (*sets)[set].x;
      layer_norm_backward_cuda(of, weight, (*sets)[set].gradient, (*sets)[set].stream_gradient,
                               Added::BranchAndBias);
    };
  }
  return work;
}

Work gelu_work(bool backward) {
  const auto make = [&] {
    RowSet set;
    set.x = normal({kRows, 4 * kWidth}, torch::kBFloat16);
    set.gradient = normal({kRows, 4 * kWidth}, torch::kBFloat16);
    return set;
  };
  const auto sets = rotating_sets(
      make, [](const RowSet& set) { return 2.0 * static_cast<double>(set.x.nbytes()); });
  const auto bias = positive({4 * kWidth});
  Work work;
  work.sets = sets->size();
  work.traffic.add(sets->front().x, backward ? 3 : 2);
  work.call = [=](std::size_t set) {
    const auto& of = (*sets)[set];
    if (backward) {
      bias_gelu_backward_cuda(of.gradient, of.x, bias);
    } else {
      bias_gelu_forward_cuda(of.x, bias);
    }
  };
  return work;
}

}  // namespace

void add_layer_benchmarks() {
  for (const bool backward : {false, true}) {
    const std::string way = backward ? "backward" : "forward";
    for (const auto& shape : kImages) {
      for (const bool residual : {false, true}) {
        add_benchmark("batch_norm/" + name_of(shape) + (residual ? "/residual/" : "/relu/") + way,
                      [=] { return batch_norm_work(shape, residual, backward); });
      }
    }
    add_benchmark("layer_norm/" + way, [=] { return layer_norm_work(backward); });
    add_benchmark("bias_gelu/" + way, [=] { return gelu_work(backward); });
  }
}

}  // namespace adaact::bench
