#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <ATen/cuda/CUDAEvent.h>
#include <adaact/ranks/nccl.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/ScopeExit.h>
#include <nccl.h>
#include <torch/torch.h>

namespace adaact {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Ranks that wait for their GPUs ask one another so often, so that one which has stopped answering is asked, and found,
/// nearly as soon as it has.
constexpr Seconds kBetweenQuestions = std::chrono::seconds(1);
/// Where all ranks answer and nothing fails, a step may just be long. It is given up after so many timeouts.
constexpr double kMostTimeouts = 10.0;

/// What NCCL itself says of the last error of this process, as ": text"; empty where it says nothing.
std::string details_of_nccl() {
#if NCCL_VERSION_CODE >= 21300
  const char* const text = ncclGetLastError(nullptr);
  if (text != nullptr && *text != '\0') return std::string(": ") + text;
#endif
  return {};
}

/// Throws RankError unless a call of NCCL succeeded. `call`: its name; `rank`: the name of the rank that made it. The
/// message does not begin with the rank: such a one is what others have found out about it.
void check_nccl(ncclResult_t result, const char* call, const std::string& rank) {
  if (result == ncclSuccess) return;
  throw RankError(std::string(call) + " of NCCL failed on " + rank + ": " +
                  ncclGetErrorString(result) + details_of_nccl());
}

/// How NCCL adds the numbers of a dtype.
struct NcclType {
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  std::size_t numbers_of_one = 1;  // of a complex number two
};

NcclType nccl_sum_type(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat64:
      return {ncclFloat64};
    case torch::kFloat32:
      return {ncclFloat32};
    case torch::kFloat16:
      return {ncclFloat16};
    case torch::kBFloat16:
      return {ncclBfloat16};
    case torch::kComplexDouble:
      return {ncclFloat64, ncclSum, 2};
    case torch::kComplexFloat:
      return {ncclFloat32, ncclSum, 2};
    case torch::kInt64:
      return {ncclInt64};
    case torch::kInt32:
      return {ncclInt32};
    case torch::kInt8:
      return {ncclInt8};
    case torch::kUInt8:
      return {ncclUint8};
    case torch::kBool:
      return {ncclUint8, ncclMax};
    default:
      TORCH_CHECK(false, "begin_sum(): NCCL cannot add tensors of dtype ", dtype);
  }
}

torch::Device with_index(torch::Device device) {
  TORCH_CHECK(device.is_cuda(), "NCCL: device is ", device, ", expected a CUDA device");
  return device.has_index() ? device : torch::Device(torch::kCUDA, c10::cuda::current_device());
}

/// A stream of its own, so that sums wait for nothing but what they sum.
class StreamOfSums {
 public:
  explicit StreamOfSums(torch::Device device) : device_(device) {
    const c10::cuda::CUDAGuard guard(device);
    int least = 0;
    int greatest = 0;
    C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  }
  ~StreamOfSums() { cudaStreamDestroy(stream_); }
  StreamOfSums(const StreamOfSums&) = delete;
  StreamOfSums& operator=(const StreamOfSums&) = delete;

  c10::cuda::CUDAStream get() const {
    return c10::cuda::getStreamFromExternal(stream_, device_.index());
  }

 private:
  torch::Device device_;
  cudaStream_t stream_ = nullptr;
};

/// Tensors of a list by who sums them.
struct ByPlace {
  explicit ByPlace(const std::vector<torch::Tensor>& tensors, torch::Device device,
                   const char* call) {
    for (const auto& tensor : tensors) {
      TORCH_CHECK(tensor.is_contiguous(), call, ": a tensor of sizes ", tensor.sizes(),
                  " is not contiguous");
      TORCH_CHECK(tensor.device().is_cpu() || tensor.device() == device, call, ": a tensor is on ",
                  tensor.device(), ", expected the CPU or ", device, ", this rank's GPU");
      (tensor.device().is_cpu() ? on_host : on_gpu).push_back(tensor);
    }
  }
  std::vector<torch::Tensor> on_gpu;
  std::vector<torch::Tensor> on_host;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Communicator> ranks, torch::Device device,
                   const NcclOptions& options)
      : ranks_(std::move(ranks)),
        own_name_(ranks_->describe(ranks_->rank())),
        options_(options),
        device_(with_index(device)),
        stream_(device_) {
    const auto id = torch::zeros({static_cast<std::int64_t>(sizeof(ncclUniqueId))}, torch::kUInt8);
    if (ranks_->is_first()) {
      ncclUniqueId made;
      check_nccl(ncclGetUniqueId(&made), "ncclGetUniqueId", own_name_);
      std::memcpy(id.data_ptr(), &made, sizeof(made));
    }
    ranks_->broadcast({id}, /*root=*/0);
    ncclUniqueId of_all;
    std::memcpy(&of_all, id.data_ptr(), sizeof(of_all));
    start_nccl(of_all);
  }

  ~NcclCommunicator() override {
    // An orderly end waits for all ranks. Where one of them has failed, or this one leaves by an exception and the others
    // are still in their sums, it would wait for ever.
    const bool leaves_by_exception = std::uncaught_exceptions() > exceptions_when_made_;
    if (has_failed_ || leaves_by_exception) {
      ncclCommAbort(communicator_);
    } else {
      ncclCommDestroy(communicator_);
    }
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::int64_t rank() const override { return ranks_->rank(); }
  std::int64_t size() const override { return ranks_->size(); }
  std::string describe(std::int64_t rank) const override { return ranks_->describe(rank); }
  void barrier() override {
    by_ranks([&] { ranks_->barrier(); });
  }
  std::vector<std::string> gather(const std::string& text) override {
    return by_ranks([&] { return ranks_->gather(text); });
  }
  bool can_be_captured() const override { return true; }
  bool is_alone() const override { return false; }

  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    ByPlace of(tensors, device_, "begin_sum()");
    for (const auto& tensor : of.on_gpu) nccl_sum_type(tensor.scalar_type());
    std::unique_ptr<Pending> on_host;
    if (!of.on_host.empty()) {
      on_host = by_ranks([&] { return ranks_->begin_sum(std::move(of.on_host)); });
    }
    return enqueue(std::move(of.on_gpu), std::move(on_host), [this](const torch::Tensor& tensor) {
      const auto type = nccl_sum_type(tensor.scalar_type());
      const auto count = static_cast<std::size_t>(tensor.numel()) * type.numbers_of_one;
      check(ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), count, type.type, type.op,
                          communicator_, stream_.get()),
            "ncclAllReduce");
    });
  }

  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override {
    TORCH_CHECK(root >= 0 && root < size(), "broadcast(): root is ", root, ", expected 0 to ",
                size() - 1);
    ByPlace of(tensors, device_, "broadcast()");
    if (!of.on_host.empty()) by_ranks([&] { ranks_->broadcast(of.on_host, root); });
    enqueue(std::move(of.on_gpu), nullptr, [this, root](const torch::Tensor& tensor) {
      check(ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes(), ncclUint8,
                          static_cast<int>(root), communicator_, stream_.get()),
            "ncclBroadcast");
    })->wait();
  }

  void wait_for_stream() override {
    const c10::cuda::CUDAGuard guard(device_);
    at::cuda::CUDAEvent reached;
    reached.record(c10::cuda::getCurrentCUDAStream(device_.index()));
    wait_together([&](Seconds time) { return is_reached_within(reached, time); },
                  "the sums of the ranks' GPUs did not come to an end");
  }

 private:
  /// NCCL starts when all ranks come to it, and waits for ever for one that is gone. So a thread waits, which nothing can
  /// end and which owns what it writes to, while this one asks the others.
  void start_nccl(const ncclUniqueId& id) {
    std::packaged_task<ncclComm_t()> start([id, device = device_, size = static_cast<int>(size()),
                                            rank = static_cast<int>(rank()), name = own_name_] {
      const c10::cuda::CUDAGuard guard(device);
      ncclComm_t started = nullptr;
      check_nccl(ncclCommInitRank(&started, size, id, rank), "ncclCommInitRank", name);
      return started;
    });
    const auto started = start.get_future().share();
    std::thread(std::move(start)).detach();
    const auto is_started_within = [&](Seconds time) {
      if (started.wait_for(time) != std::future_status::ready) return false;
      started.get();  // throws where NCCL has failed here, which the others need not wait for
      return true;
    };
    wait_together(is_started_within, "NCCL has not started");
    communicator_ = started.get();
  }

  /// All ranks wait together: as long as one is not done they ask one another again and again, so that one that has
  /// stopped answering is found by the others' sum on the host, which names it. `otherwise`: what is said where all answer
  /// and yet it takes too long.
  void wait_together(const std::function<bool(Seconds)>& is_done_within,
                     const std::string& otherwise) {
    const Seconds longest = kMostTimeouts * options_.timeout;
    for (Seconds waited(0); waited < longest; waited += kBetweenQuestions) {
      const bool is_done = is_done_within(kBetweenQuestions);
      const auto not_done = torch::full({1}, is_done ? 0 : 1, torch::kInt64);
      by_ranks([&] { ranks_->sum({not_done}); });
      if (not_done.item<std::int64_t>() == 0) return;
    }
    has_failed_ = true;
    throw RankError(otherwise + " for " + std::to_string(std::llround(longest.count())) +
                    " s, though all ranks answer");
  }

  /// check_nccl(), after which the other ranks may wait for this one for ever.
  void check(ncclResult_t result, const char* call) {
    if (result != ncclSuccess) has_failed_ = true;
    check_nccl(result, call, own_name_);
  }

  /// What the ranks by which NCCL started return. Where one of them has failed, sums of GPUs will wait for it for ever.
  template <class Call>
  std::invoke_result_t<Call> by_ranks(const Call& call) {
    try {
      return call();
    } catch (const RankError&) {
      has_failed_ = true;
      throw;
    }
  }

  /// What NCCL does with tensors, beside the current stream until wait().
  class UnderWay : public Pending {
   public:
    UnderWay(NcclCommunicator& of, std::vector<torch::Tensor> tensors, at::cuda::CUDAEvent done,
             std::unique_ptr<Pending> on_host)
        : of_(of),
          tensors_(std::move(tensors)),
          done_(std::move(done)),
          on_host_(std::move(on_host)) {}
    /// Whoever gets the memory of the tensors next must come after the sum.
    ~UnderWay() override {
      try {
        let_current_stream_wait();
      } catch (...) {  // an error of the device is the next caller's to see
      }
    }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

    void wait() override {
      if (on_host_) of_.by_ranks([&] { on_host_->wait(); });
      let_current_stream_wait();
    }

   private:
    void let_current_stream_wait() {
      if (tensors_.empty()) return;
      done_.block(c10::cuda::getCurrentCUDAStream(tensors_.front().device().index()));
      tensors_.clear();
    }

    NcclCommunicator& of_;
    std::vector<torch::Tensor> tensors_;
    at::cuda::CUDAEvent done_;
    std::unique_ptr<Pending> on_host_;
  };

  template <class Call>
  std::unique_ptr<Pending> enqueue(std::vector<torch::Tensor> tensors,
                                   std::unique_ptr<Pending> on_host, const Call& call) {
    const c10::cuda::CUDAGuard guard(device_);
    at::cuda::CUDAEvent done;
    if (!tensors.empty()) {
      at::cuda::CUDAEvent begun;
      begun.record(c10::cuda::getCurrentCUDAStream(device_.index()));
      begun.block(stream_.get());
      check(ncclGroupStart(), "ncclGroupStart");
      // Whatever this thread asked of NCCL after a call that threw would only be added to a group that is still open.
      auto end_group = c10::make_scope_exit([] { ncclGroupEnd(); });
      for (const auto& tensor : tensors) {
        if (tensor.numel() > 0) call(tensor);
      }
      end_group.release();
      check(ncclGroupEnd(), "ncclGroupEnd");
      done.record(stream_.get());
    }
    return std::make_unique<UnderWay>(*this, std::move(tensors), std::move(done),
                                      std::move(on_host));
  }

  bool is_reached_within(const at::cuda::CUDAEvent& event, Seconds time) {
    const auto begin = Clock::now();
    while (!event.query()) {
      auto state = ncclSuccess;
      check(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError");
      if (state != ncclInProgress) check(state, "a sum");
      const auto waited = Clock::now() - begin;
      if (waited > time) return false;
      // A step takes a millisecond or more, and another thread may have use for the core.
      constexpr std::chrono::microseconds kShortest(20);
      constexpr std::chrono::microseconds kLongest(500);
      std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 20, kShortest, kLongest));
    }
    return true;
  }

  const std::shared_ptr<Communicator> ranks_;
  const std::string own_name_;
  const int exceptions_when_made_ = std::uncaught_exceptions();
  const NcclOptions options_;
  const torch::Device device_;
  const StreamOfSums stream_;
  ncclComm_t communicator_ = nullptr;
  std::atomic<bool> has_failed_{false};  // sums are begun by the backward pass's threads too
};

}  // namespace

bool has_nccl() { return true; }

std::string name_of_gpu(torch::Device device) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, with_index(device).index()));
  std::ostringstream name;
  name << std::hex << std::setfill('0');
  for (const auto byte : properties.uuid.bytes) {
    name << std::setw(2) << static_cast<unsigned>(static_cast<unsigned char>(byte));
  }
  return name.str();
}

std::shared_ptr<Communicator> nccl_communicator(std::shared_ptr<Communicator> ranks,
                                                torch::Device device, const NcclOptions& options) {
  TORCH_CHECK(
      ranks != nullptr,
      "nccl_communicator(): there are no ranks, expected those that NCCL starts by, such as "
      "mpi_communicator()");
  TORCH_CHECK(options.timeout.count() > 0, "nccl_communicator(): timeout is ",
              options.timeout.count(), " s, expected more than 0 s");
  return std::make_shared<NcclCommunicator>(std::move(ranks), device, options);
}

}  // namespace adaact
