#include <adaact/ranks/nccl.h>

namespace adaact {

bool has_nccl() { return false; }

std::string name_of_gpu(torch::Device /*device*/) {
  TORCH_CHECK(false, "a GPU's name needs a build with NCCL");
}

std::shared_ptr<Communicator> nccl_communicator(std::shared_ptr<Communicator> /*ranks*/,
                                                torch::Device /*device*/,
                                                const NcclOptions& /*options*/) {
  throw RankError(
      "this build of adaact has no NCCL: it needs a LibTorch with CUDA, nccl.h and libnccl, and "
      "-DADAACT_NCCL=ON says why they are not found");
}

}  // namespace adaact
