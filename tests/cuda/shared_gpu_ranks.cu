#include "cuda/shared_gpu_ranks.h"

#include <cstring>
#include <utility>
#include <vector>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

namespace adaact::testing {
namespace {

constexpr std::int64_t kSlotBytes = 8 << 20;  // of a rank, for one tensor
constexpr std::int64_t kCounterBytes = 256;

/// All ranks have come this far, and see what the others wrote before.
__global__ void meet(unsigned long long* arrivals, unsigned long long* own_meetings,
                     unsigned long long ranks) {
  const auto meeting = ++*own_meetings;
  __threadfence_system();
  atomicAdd_system(arrivals, 1ULL);
  while (*static_cast<volatile unsigned long long*>(arrivals) < meeting * ranks) __nanosleep(500);
  __threadfence_system();
}

class SharedGpuRanks : public Communicator {
 public:
  explicit SharedGpuRanks(std::shared_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {
    const auto handle_bytes = static_cast<std::int64_t>(sizeof(cudaIpcMemHandle_t));
    const auto handle = torch::zeros({handle_bytes}, torch::kUInt8);
    cudaIpcMemHandle_t of_memory;
    if (is_first()) {
      const auto bytes = static_cast<std::size_t>(kCounterBytes + size() * kSlotBytes);
      C10_CUDA_CHECK(cudaMalloc(&memory_, bytes));
      C10_CUDA_CHECK(cudaMemset(memory_, 0, bytes));
      C10_CUDA_CHECK(cudaDeviceSynchronize());
      C10_CUDA_CHECK(cudaIpcGetMemHandle(&of_memory, memory_));
      std::memcpy(handle.data_ptr(), &of_memory, sizeof(of_memory));
    }
    ranks_->broadcast({handle}, /*root=*/0);
    if (!is_first()) {
      std::memcpy(&of_memory, handle.data_ptr(), sizeof(of_memory));
      C10_CUDA_CHECK(cudaIpcOpenMemHandle(&memory_, of_memory, cudaIpcMemLazyEnablePeerAccess));
    }
    meetings_ = torch::zeros({1}, torch::dtype(torch::kInt64).device(torch::kCUDA));
    C10_CUDA_CHECK(cudaDeviceSynchronize());
  }

  ~SharedGpuRanks() override {
    cudaDeviceSynchronize();
    if (!is_first()) cudaIpcCloseMemHandle(memory_);
    try {
      ranks_->barrier();  // nobody else has it any more
    } catch (...) {       // a test has failed already
    }
    if (is_first()) cudaFree(memory_);
  }
  SharedGpuRanks(const SharedGpuRanks&) = delete;
  SharedGpuRanks& operator=(const SharedGpuRanks&) = delete;

  std::int64_t rank() const override { return ranks_->rank(); }
  std::int64_t size() const override { return ranks_->size(); }
  bool can_be_captured() const override { return true; }
  bool is_alone() const override { return false; }

  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    struct Enqueued : Pending {
      void wait() override {
        if (on_host) on_host->wait();
      }
      std::unique_ptr<Pending> on_host;
    };
    auto sum = std::make_unique<Enqueued>();
    std::vector<torch::Tensor> on_host;
    for (const auto& tensor : tensors) {
      if (tensor.is_cuda()) {
        combine(tensor, [&] {
          tensor.copy_(slot(0, tensor));
          for (std::int64_t r = 1; r < size(); ++r) tensor.add_(slot(r, tensor));
        });
      } else {
        on_host.push_back(tensor);
      }
    }
    if (!on_host.empty()) sum->on_host = ranks_->begin_sum(std::move(on_host));
    return sum;
  }

  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override {
    for (const auto& tensor : tensors) {
      if (tensor.is_cuda()) {
        combine(tensor, [&] { tensor.copy_(slot(root, tensor)); });
      } else {
        ranks_->broadcast({tensor}, root);
      }
    }
  }

 private:
  template <class Work>
  void combine(const torch::Tensor& tensor, const Work& work) {
    const torch::NoGradGuard no_grad;
    TORCH_CHECK(static_cast<std::int64_t>(tensor.nbytes()) <= kSlotBytes, "a tensor of ",
                tensor.nbytes(), " bytes, expected at most ", kSlotBytes);
    slot(rank(), tensor).copy_(tensor);
    enqueue_meeting();
    work();
    enqueue_meeting();  // before anybody writes to a slot again
  }

  torch::Tensor slot(std::int64_t rank, const torch::Tensor& like) const {
    auto* begin = static_cast<char*>(memory_) + kCounterBytes + rank * kSlotBytes;
    return torch::from_blob(begin, like.sizes(), like.options().requires_grad(false));
  }

  void enqueue_meeting() {
    meet<<<1, 1, 0, c10::cuda::getCurrentCUDAStream()>>>(
        static_cast<unsigned long long*>(memory_),
        reinterpret_cast<unsigned long long*>(meetings_.data_ptr<std::int64_t>()),
        static_cast<unsigned long long>(size()));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  const std::shared_ptr<Communicator> ranks_;
  void* memory_ = nullptr;  // a counter of arrivals, then a slot for each rank
  torch::Tensor meetings_;  // of this rank so far
};

}  // namespace

std::shared_ptr<Communicator> shared_gpu_ranks(std::shared_ptr<Communicator> ranks) {
  return std::make_shared<SharedGpuRanks>(std::move(ranks));
}

}  // namespace adaact::testing
