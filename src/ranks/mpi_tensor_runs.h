#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpi.h>
#include <torch/types.h>

#include "ranks/mpi_buffers.h"

namespace adaact {

/// Numbers side by side in memory, which travel together.
struct MpiRun {
  void* data;
  std::int64_t count;
  std::int64_t bytes_of_one;
  MPI_Datatype type;
  MPI_Op op;  // what makes one of two ranks'
};

/// The numbers of a list of tensors as few runs: one for each type that MPI adds. A run of one tensor is the tensor's
/// own memory where MPI can add its numbers as they are; others are memory of their own, which pack() fills.
class MpiTensorRuns {
 public:
  enum class Purpose { kSum, kCopy };

  /// The tensors are contiguous and on the CPU.
  MpiTensorRuns(std::vector<torch::Tensor> tensors, Purpose purpose);

  /// Throws c10::Error, naming the dtype, where tensors of it cannot be summed.
  static void check_can_be_summed(const torch::Tensor& tensor);

  /// The runs, known before pack() but for the addresses of those that it fills.
  const std::vector<MpiRun>& runs() const { return runs_; }
  std::int64_t bytes() const;

  void pack(MpiBuffers& buffers);
  void unpack(MpiBuffers& buffers);

 private:
  struct Part {
    torch::Tensor tensor;
    std::size_t run;
    std::int64_t first;  // within the run
    std::int64_t count;
  };
  bool is_in_place(const Part& part) const;

  std::vector<Part> parts_;
  std::vector<MpiRun> runs_;
  std::vector<MpiBuffers::Buffer> memory_;
};

}  // namespace adaact
