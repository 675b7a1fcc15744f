// Fused layers, each way: what they must read and write, once. Sums over a batch come before what is made of them,
// so what is summed must be read twice; the second time counts as the first.

#include <adaact/models/registry.h>
#include <torch/torch.h>

#include "gpu_kernels/work.h"
#include "kernels/convert_many_cuda.h"
#include "layers/average_pool_cuda.h"
#include "layers/batch_norm_cuda.h"
#include "layers/bias_gelu_cuda.h"
#include "layers/copy_channels_cuda.h"
#include "layers/cross_entropy_cuda.h"
#include "layers/global_average_cuda.h"
#include "layers/layer_norm_cuda.h"
#include "layers/max_pool_cuda.h"
#include "layers/shortened_cuda.h"

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

Work batch_norm_work(const std::vector<std::int64_t>& shape, bool residual, bool backward,
                     bool sum_squares = false) {
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
      batch_norm_forward_cuda(of.x, of.residual, weight, bias, running, 1e-5, /*relu=*/true,
                              sum_squares);
    };
  } else {
    // Two gradients, the output and x read, their sum written; that and x read, dx written. Or the gradient and x
    // read twice, dx written.
    work.traffic.add(x, residual ? 8 : 5);
    const auto of_forward = batch_norm_forward_cuda(x, sets->front().residual, weight, bias,
                                                    running, 1e-5, /*relu=*/true,
                                                    /*with_squares=*/false);
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
      batch_norm_backward_cuda(pass, of.gradient, of.second, {},
                               /*may_overwrite_gradient=*/false);
    };
  }
  work.sets = sets->size();
  return work;
}

/// The rows of ViT-S are the tokens of 256 images, and this is its width.
constexpr std::int64_t kRows = 256 * 197;
constexpr std::int64_t kWidth = 384;

struct RowSet {
  torch::Tensor x, branch, gradient, stream_gradient;
};

/// With one branch the sum is not written, and made once more backward; with two it is.
Work layer_norm_work(bool backward, int branches, bool sum_squares) {
  const auto make = [&] {
    return RowSet{
        normal({kRows, kWidth}, torch::kFloat32), normal({kRows, kWidth}, torch::kBFloat16),
        normal({kRows, kWidth}, torch::kBFloat16), normal({kRows, kWidth}, torch::kFloat32)};
  };
  const auto sets = rotating_sets(
      make, [](const RowSet& set) { return 3.0 * static_cast<double>(set.x.nbytes()); });
  const auto weight = positive({kWidth});
  const auto bias = positive({kWidth});
  const bool is_written = branches == 2;
  Work work;
  work.sets = sets->size();
  const auto& first = sets->front();
  const auto forward = [=](const RowSet& of) {
    const SummedRows rows{
        of.x, is_written ? Branch{of.gradient, bias} : Branch{}, {of.branch, bias}};
    return layer_norm_forward_cuda(rows, weight, bias, 1e-6, torch::kBFloat16, sum_squares);
  };
  if (!backward) {
    work.traffic.add(first.x, is_written ? 2 : 1);
    work.traffic.add(first.branch, branches + 1);
    work.call = [=](std::size_t set) { forward((*sets)[set]); };
  } else {
    work.traffic.add(first.x, 3);
    work.traffic.add(first.branch, is_written ? 2 : 3);
    const auto rows = forward(first);
    work.call = [=](std::size_t set) {
      auto of = rows;
      of.stream = (*sets)[set].x;
      if (!is_written) of.unwritten.values = (*sets)[set].branch;
      layer_norm_backward_cuda(of, weight, (*sets)[set].gradient, (*sets)[set].stream_gradient,
                               Added::BranchAndBias);
    };
  }
  return work;
}

Work gelu_work(bool backward, bool sum_squares) {
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
      bias_gelu_forward_cuda(of.x, bias, sum_squares);
    }
  };
  return work;
}

/// The stem of ResNet-50.
Work max_pool_work(bool backward) {
  const PoolWindow window{/*kernel=*/3, /*stride=*/2, /*padding=*/1};
  const auto make = [&] {
    NormSet set;
    set.x = image({256, 64, 112, 112});
    if (backward) set.gradient = image({256, 64, 56, 56});
    return set;
  };
  const auto sets =
      rotating_sets(make, [](const NormSet& set) { return static_cast<double>(set.x.nbytes()); });
  const auto pooled = max_pool_forward_cuda(sets->front().x, window, /*with_winners=*/true);
  Work work;
  work.sets = sets->size();
  work.traffic.add(sets->front().x, 1);  // read, or its gradient written
  work.traffic.add(pooled.output, 1);
  work.traffic.add(pooled.winners, 1);
  work.call = [=](std::size_t set) {
    const auto& of = (*sets)[set];
    if (backward) {
      max_pool_backward_cuda(of.gradient, pooled.winners, window, of.x.size(2), of.x.size(3));
    } else {
      max_pool_forward_cuda(of.x, window, /*with_winners=*/true);
    }
  };
  return work;
}

/// The first transition of DenseNet-121.
Work average_pool_work(bool backward) {
  const std::vector<std::int64_t> shape{128, 128, 32, 32};
  const auto make = [&] { return NormSet{image(shape), {}, image({128, 128, 16, 16}), {}}; };
  const auto sets =
      rotating_sets(make, [](const NormSet& set) { return static_cast<double>(set.x.nbytes()); });
  Work work;
  work.sets = sets->size();
  work.traffic.add(sets->front().x, 1);  // read, or its gradient written
  work.traffic.add(sets->front().gradient, 1);
  work.call = [=](std::size_t set) {
    const auto& of = (*sets)[set];
    if (backward) {
      average_pool_backward_cuda(of.gradient, of.x.sizes(), /*size=*/2);
    } else {
      average_pool_forward_cuda(of.x, /*size=*/2);
    }
  };
  return work;
}

/// The first shortcut of ResNet-20: every second row and column, among twice the channels.
Work shortened_work(bool backward) {
  const std::vector<std::int64_t> shape{128, 16, 32, 32};
  const auto make = [&] { return NormSet{image(shape), {}, image({128, 32, 16, 16}), {}}; };
  const auto sets =
      rotating_sets(make, [](const NormSet& set) { return static_cast<double>(set.x.nbytes()); });
  Work work;
  work.sets = sets->size();
  const auto& first = sets->front();
  // Forward every second row is read; backward all of them are written, and half of the gradient's channels are read.
  const auto bytes = static_cast<double>(first.x.nbytes());
  const auto of_gradient = static_cast<double>(first.gradient.nbytes());
  work.traffic.held = bytes + of_gradient;
  work.traffic.moved = backward ? bytes + of_gradient / 2 : bytes / 2 + of_gradient;
  work.call = [=](std::size_t set) {
    const auto& of = (*sets)[set];
    if (backward) {
      lengthen_cuda(of.gradient, of.x.sizes(), /*stride=*/2, /*before=*/8);
    } else {
      shorten_cuda(of.x, /*stride=*/2, /*before=*/8, /*after=*/8);
    }
  };
  return work;
}

/// A layer's 32 channels into their place among a dense block's 256.
Work copy_channels_work() {
  const auto make = [&] {
    return NormSet{image({128, 32, 32, 32}), image({128, 256, 32, 32}), {}, {}};
  };
  const auto sets = rotating_sets(
      make, [](const NormSet& set) { return 2.0 * static_cast<double>(set.x.nbytes()); });
  Work work;
  work.sets = sets->size();
  work.traffic.add(sets->front().x, 2);
  work.call = [=](std::size_t set) {
    const auto& of = (*sets)[set];
    copy_channels_cuda(of.x, of.residual.narrow(1, 64, 32));
  };
  return work;
}

struct CastSet {
  std::vector<torch::Tensor> wide, narrow;
};

/// All weights of a model to bfloat16, or their gradients back.
Work convert_many_work(const std::string& model, bool back) {
  const auto make = [&] {
    CastSet set;
    for (const auto& parameter : make_model(model)->parameters()) {
      if (parameter.dim() < 2) continue;
      set.wide.push_back(parameter.detach().to(torch::kCUDA));
      set.narrow.push_back(set.wide.back().to(torch::kBFloat16));
    }
    return set;
  };
  const auto sets = rotating_sets(make, [](const CastSet& set) {
    double bytes = 0.0;
    for (const auto& tensor : set.wide) bytes += 1.5 * static_cast<double>(tensor.nbytes());
    return bytes;
  });
  Work work;
  work.sets = sets->size();
  for (const auto& tensor : sets->front().wide) work.traffic.add(tensor, 1);
  for (const auto& tensor : sets->front().narrow) work.traffic.add(tensor, 1);
  work.call = [=](std::size_t set) {
    const auto& of = (*sets)[set];
    back ? convert_many_cuda(of.narrow, of.wide) : convert_many_cuda(of.wide, of.narrow);
  };
  return work;
}

/// The gradient of ResNet-50's last average. There is nothing to read but a number for every channel.
Work global_average_work() {
  const auto gradient = normal({256, 2048}, torch::kBFloat16);
  Work work;
  work.traffic.add(gradient, 1);
  work.traffic.moved += 49.0 * static_cast<double>(gradient.nbytes());
  work.call = [=](std::size_t /*set*/) {
    global_average_backward_cuda(gradient, 7, 7, /*channels_last=*/true);
  };
  return work;
}

struct LossSet {
  torch::Tensor logits, labels;
};

Work cross_entropy_work(std::int64_t rows, std::int64_t classes) {
  const auto make = [&] {
    return LossSet{
        normal({rows, classes}, torch::kBFloat16),
        torch::randint(classes, {rows}, torch::dtype(torch::kLong).device(torch::kCUDA))};
  };
  const auto sets = rotating_sets(
      make, [](const LossSet& set) { return 2.0 * static_cast<double>(set.logits.nbytes()); });
  Work work;
  work.sets = sets->size();
  work.traffic.add(sets->front().logits, 2);  // read, and the gradient written
  work.traffic.add(sets->front().labels, 1);
  work.call = [=](std::size_t set) {
    cross_entropy_cuda((*sets)[set].logits, (*sets)[set].labels, 0.1, static_cast<double>(rows));
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
    for (const int branches : {1, 2}) {
      const std::string sum = branches == 1 ? "/unwritten/" : "/written/";
      add_benchmark("layer_norm" + sum + way,
                    [=] { return layer_norm_work(backward, branches, false); });
    }
    add_benchmark("bias_gelu/" + way, [=] { return gelu_work(backward, false); });
    add_benchmark("max_pool/" + way, [=] { return max_pool_work(backward); });
    add_benchmark("average_pool/" + way, [=] { return average_pool_work(backward); });
    add_benchmark("shortened/" + way, [=] { return shortened_work(backward); });
  }
  for (const auto& shape : kImages) {
    add_benchmark("batch_norm/" + name_of(shape) + "/relu/forward/squares", [=] {
      return batch_norm_work(shape, /*residual=*/false, /*backward=*/false, /*sum_squares=*/true);
    });
  }
  add_benchmark("copy_channels", copy_channels_work);
  for (const std::string model : kModels) {
    for (const bool back : {false, true}) {
      add_benchmark("convert_many/" + model + (back ? "/to_fp32" : "/to_bf16"),
                    [=] { return convert_many_work(model, back); });
    }
  }
  add_benchmark("global_average/backward", global_average_work);
  for (const std::int64_t rows : {128, 256}) {
    for (const std::int64_t classes : {10, 100, 1000}) {
      add_benchmark("cross_entropy/" + name_of({rows, classes}),
                    [=] { return cross_entropy_work(rows, classes); });
    }
  }
  add_benchmark("layer_norm/unwritten/forward/squares",
                [] { return layer_norm_work(false, 1, true); });
  add_benchmark("layer_norm/written/forward/squares",
                [] { return layer_norm_work(false, 2, true); });
  add_benchmark("bias_gelu/forward/squares", [] { return gelu_work(false, true); });
}

}  // namespace adaact::bench
