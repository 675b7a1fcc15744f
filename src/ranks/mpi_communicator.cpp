#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include <adaact/ranks/mpi.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include "ranks/mpi_worker.h"

namespace adaact {
namespace {

/// Tensors of a GPU and their copies in host memory, which travel in their place.
class HostCopies {
 public:
  /// Enqueues the copies on the current streams, and waits for nothing.
  explicit HostCopies(const std::vector<torch::Tensor>& tensors) {
    const torch::NoGradGuard no_grad;
    for (const auto& tensor : tensors) {
      if (tensor.device().is_cpu()) {
        on_host_.push_back(tensor);
        continue;
      }
      // From pinned memory and back a copy does not make the host wait.
      auto copy = torch::empty(
          tensor.sizes(),
          tensor.options().device(torch::kCPU).pinned_memory(tensor.device().is_cuda()));
      copy.copy_(tensor, /*non_blocking=*/true);
      on_host_.push_back(copy);
      copies_.emplace_back(tensor, copy);
      TORCH_CHECK(!device_ || *device_ == tensor.device(), "tensors of one list are on ", *device_,
                  " and on ", tensor.device(), ", expected one GPU");
      device_ = tensor.device();
    }
    if (!device_) return;
    const c10::impl::VirtualGuardImpl device(device_->type());
    copied_ = std::make_shared<c10::Event>(device_->type());
    copied_->record(device.getStream(*device_));
  }

  const std::vector<torch::Tensor>& on_host() const { return on_host_; }

  /// Tells whether the copies may be read.
  std::function<bool()> are_made() const {
    return [copied = copied_] { return copied == nullptr || copied->query(); };
  }

  /// Enqueues the copies back as well: what comes later on the current streams sees the tensors as the copies are now.
  void bring_back() const {
    const torch::NoGradGuard no_grad;
    for (const auto& [tensor, copy] : copies_) tensor.copy_(copy, /*non_blocking=*/true);
  }

 private:
  std::vector<torch::Tensor> on_host_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies_;
  std::optional<c10::Device> device_;
  std::shared_ptr<c10::Event> copied_;
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(const MpiOptions& options) : worker_(MpiWorker::start(options)) {}

  std::int64_t rank() const override { return worker_->rank(); }
  std::int64_t size() const override { return worker_->size(); }
  std::string describe(std::int64_t rank) const override { return worker_->describe(rank); }

  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    for (const auto& tensor : tensors) {
      TORCH_CHECK(tensor.is_contiguous(), "begin_sum(): a tensor of sizes ", tensor.sizes(),
                  " is not contiguous");
      MpiTensorRuns::check_can_be_summed(tensor);
    }
    return begin(tensors, MpiTensorRuns::Purpose::kSum, std::nullopt);
  }

  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override {
    TORCH_CHECK(root >= 0 && root < size(), "broadcast(): root is ", root, ", expected 0 to ",
                size() - 1);
    for (const auto& tensor : tensors) {
      TORCH_CHECK(tensor.is_contiguous(), "broadcast(): a tensor of sizes ", tensor.sizes(),
                  " is not contiguous");
    }
    begin(tensors, MpiTensorRuns::Purpose::kCopy, static_cast<int>(root))->wait();
  }

  MpiWorker& worker() { return *worker_; }

 private:
  class UnderWay : public Pending {
   public:
    UnderWay(MpiWorker& worker, HostCopies copies, std::shared_ptr<MpiWorker::Task> task)
        : worker_(worker), copies_(std::move(copies)), task_(std::move(task)) {}
    void wait() override {
      worker_.wait(*task_);
      copies_.bring_back();
    }

   private:
    MpiWorker& worker_;
    HostCopies copies_;
    std::shared_ptr<MpiWorker::Task> task_;
  };

  std::unique_ptr<Pending> begin(const std::vector<torch::Tensor>& tensors,
                                 MpiTensorRuns::Purpose purpose, std::optional<int> root) {
    HostCopies copies(tensors);
    auto task = std::make_shared<MpiWorker::Task>(MpiTensorRuns(copies.on_host(), purpose), root,
                                                  copies.are_made());
    worker_->begin(task);
    return std::make_unique<UnderWay>(*worker_, std::move(copies), std::move(task));
  }

  std::unique_ptr<MpiWorker> worker_;
};

/// The one communicator of this process, which can have no second one: MPI is started once.
struct TheCommunicator {
  std::mutex mutex;
  bool was_made = false;
  std::weak_ptr<MpiCommunicator> made;
};

TheCommunicator& the_communicator() {
  static TheCommunicator the_one;
  return the_one;
}

std::shared_ptr<MpiCommunicator> communicator_if_there_is_one() {
  auto& the_one = the_communicator();
  const std::lock_guard<std::mutex> lock(the_one.mutex);
  return the_one.made.lock();
}

}  // namespace

bool has_mpi() { return true; }

std::shared_ptr<Communicator> mpi_communicator(const MpiOptions& options) {
  TORCH_CHECK(options.timeout.count() > 0, "mpi_communicator(): timeout is ",
              options.timeout.count(), " s, expected more than 0 s");
  auto& the_one = the_communicator();
  {
    const std::lock_guard<std::mutex> lock(the_one.mutex);
    if (auto made = the_one.made.lock()) return made;
    if (the_one.was_made) {
      throw RankError(
          "mpi_communicator(): the communicator of this process has come to its end, and MPI "
          "cannot be started again");
    }
    the_one.was_made = true;
  }
  // MPI starts without the lock being held, because abort_all_ranks() must not wait for a start that takes for ever.
  auto made = std::make_shared<MpiCommunicator>(options);
  const std::lock_guard<std::mutex> lock(the_one.mutex);
  the_one.made = made;
  return made;
}

void abort_all_ranks(int exit_code) {
  if (const auto communicator = communicator_if_there_is_one())
    communicator->worker().abort_all(exit_code);
  // mpirun ends all other ranks when one has ended like this.
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

MpiTraffic mpi_traffic() {
  const auto communicator = communicator_if_there_is_one();
  return communicator == nullptr ? MpiTraffic() : communicator->worker().traffic();
}

}  // namespace adaact
