#include "train/graph/device_evaluation.h"

#ifdef ADAACT_WITH_CUDA

#include <algorithm>

#include <adaact/data/device_batches.h>
#include <torch/torch.h>

#include "train/graph/captured_work.h"
#include "train/graph/device_batches_of.h"
#include "train/graph/set_up_mutex.h"
#include "train/step/autocast.h"
#include "train/step/evaluation_mode.h"

namespace adaact {

class DeviceEvaluation::Impl {
 public:
  Impl(Model& model, const Loader& data, torch::Device device, bool bf16, bool channels_last)
      : model_(model),
        batches_(device_batches_of(data, device, channels_last)),
        images_(data.dataset().size()),
        bf16_(bf16),
        totals_(torch::zeros({3}, torch::dtype(torch::kFloat64).device(device))),
        pool_(at::cuda::graph_pool_handle()) {
    for (const auto batch : {std::int64_t{0}, batches_.batches_per_epoch() - 1}) {
      const auto size = batches_.batch_size(batch);
      passes_.push_back({batches_.empty_images(size), batches_.empty_labels(size), nullptr, false});
    }
  }

  std::optional<Evaluation> run(const std::function<bool()>& should_stop) {
    const torch::NoGradGuard no_grad;
    const EvaluationMode mode(model_);
    totals_.zero_();
    batches_.start(/*epoch=*/0);
    const auto count = batches_.batches_per_epoch();
    for (std::int64_t batch = 0; batch < count; ++batch) {
      if (should_stop()) return std::nullopt;
      run_pass(passes_[batch == count - 1 ? 1 : 0]);
    }
    const auto totals = totals_.cpu();
    const auto images = static_cast<double>(images_);
    Evaluation result;
    result.images = images_;
    result.loss = totals[0].item<double>() / images;
    result.top1 = totals[1].item<double>() / images;
    result.top5 = totals[2].item<double>() / images;
    return result;
  }

 private:
  struct Pass {
    torch::Tensor images;
    torch::Tensor labels;
    std::unique_ptr<CapturedWork> captured;
    bool has_run = false;
  };

  void run_pass(Pass& pass) {
    if (!pass.has_run) {
      const std::lock_guard<std::mutex> lock(set_up_mutex());
      forward(pass);
      pass.has_run = true;
      return;
    }
    if (!pass.captured) {
      const std::lock_guard<std::mutex> lock(set_up_mutex());
      pass.captured = std::make_unique<CapturedWork>(pool_, [&] { forward(pass); });
    }
    pass.captured->replay();
  }

  void forward(const Pass& pass) {
    batches_.enqueue_next(pass.images, pass.labels);
    const auto logits = forward_with_autocast(model_, pass.images, bf16_);
    const auto loss = torch::cross_entropy_loss(logits, pass.labels, {}, at::Reduction::Sum);
    const auto best = std::get<1>(logits.topk(std::min<std::int64_t>(5, logits.size(1)), 1));
    const auto hits = best.eq(pass.labels.unsqueeze(1));
    totals_.add_(
        torch::stack({loss.to(torch::kFloat64), hits.select(1, 0).sum().to(torch::kFloat64),
                      hits.sum().to(torch::kFloat64)}));
  }

  Model& model_;
  DeviceBatches batches_;
  const std::int64_t images_;
  const bool bf16_;
  torch::Tensor totals_;  // loss, right, among the first five
  const at::cuda::MempoolId_t pool_;
  std::vector<Pass> passes_;  // of whole batches and of the last
};

DeviceEvaluation::DeviceEvaluation(Model& model, const Loader& data, torch::Device device,
                                   bool bf16, bool channels_last)
    : impl_(std::make_unique<Impl>(model, data, device, bf16, channels_last)) {}
DeviceEvaluation::~DeviceEvaluation() {
  const std::lock_guard<std::mutex> lock(set_up_mutex());  // as for GraphSteps
  impl_.reset();
}
std::optional<Evaluation> DeviceEvaluation::run(const std::function<bool()>& should_stop) {
  return impl_->run(should_stop);
}

}  // namespace adaact

#endif
