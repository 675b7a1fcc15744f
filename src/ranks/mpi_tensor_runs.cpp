#include "ranks/mpi_tensor_runs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace adaact {
namespace {

/// How MPI adds the numbers of a dtype.
struct WireType {
  MPI_Datatype type;
  MPI_Op op;
  std::int64_t bytes_of_one;
  std::int64_t numbers_of_one;  // of a complex number two
};

/// A type of MPI_DATATYPE_NULL where it cannot.
WireType sum_type(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat64:
      return {MPI_DOUBLE, MPI_SUM, 8, 1};
    case torch::kFloat32:
    case torch::kFloat16:
    case torch::kBFloat16:
      return {MPI_FLOAT, MPI_SUM, 4, 1};
    case torch::kComplexDouble:
      return {MPI_DOUBLE, MPI_SUM, 8, 2};
    case torch::kComplexFloat:
      return {MPI_FLOAT, MPI_SUM, 4, 2};
    case torch::kInt64:
      return {MPI_INT64_T, MPI_SUM, 8, 1};
    case torch::kInt32:
      return {MPI_INT32_T, MPI_SUM, 4, 1};
    case torch::kInt16:
      return {MPI_INT16_T, MPI_SUM, 2, 1};
    case torch::kInt8:
      return {MPI_INT8_T, MPI_SUM, 1, 1};
    case torch::kUInt8:
      return {MPI_UINT8_T, MPI_SUM, 1, 1};
    case torch::kBool:
      return {MPI_C_BOOL, MPI_LOR, 1, 1};
    default:
      return {MPI_DATATYPE_NULL, MPI_OP_NULL, 0, 0};
  }
}

bool is_sixteen_bits_wide(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat16 || tensor.scalar_type() == torch::kBFloat16;
}

template <class Narrow>
void widen(const torch::Tensor& tensor, void* to) {
  const auto* from = static_cast<const Narrow*>(tensor.data_ptr());
  std::copy(from, from + tensor.numel(), static_cast<float*>(to));
}

template <class Narrow>
void narrow(const void* from, const torch::Tensor& tensor) {
  const auto* numbers = static_cast<const float*>(from);
  std::copy(numbers, numbers + tensor.numel(), static_cast<Narrow*>(tensor.data_ptr()));
}

void* at_number(const MpiRun& run, std::int64_t first) {
  return static_cast<std::byte*>(run.data) + first * run.bytes_of_one;
}

}  // namespace

void MpiTensorRuns::check_can_be_summed(const torch::Tensor& tensor) {
  TORCH_CHECK(sum_type(tensor.scalar_type()).type != MPI_DATATYPE_NULL,
              "begin_sum(): MPI cannot add tensors of dtype ", tensor.scalar_type());
}

MpiTensorRuns::MpiTensorRuns(std::vector<torch::Tensor> tensors, Purpose purpose) {
  for (auto& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    auto wire = sum_type(tensor.scalar_type());
    if (purpose == Purpose::kCopy) wire = {MPI_BYTE, MPI_OP_NULL, 1, tensor.element_size()};
    const auto same = std::find_if(runs_.begin(), runs_.end(), [&](const MpiRun& run) {
      return run.type == wire.type && run.op == wire.op;
    });
    const auto run = static_cast<std::size_t>(same - runs_.begin());
    if (same == runs_.end()) runs_.push_back({nullptr, 0, wire.bytes_of_one, wire.type, wire.op});
    const auto count = tensor.numel() * wire.numbers_of_one;
    parts_.push_back({std::move(tensor), run, runs_[run].count, count});
    runs_[run].count += count;
  }
}

std::int64_t MpiTensorRuns::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& run : runs_) bytes += run.count * run.bytes_of_one;
  return bytes;
}

bool MpiTensorRuns::is_in_place(const Part& part) const {
  const auto& run = runs_[part.run];
  return part.count == run.count && (run.type == MPI_BYTE || !is_sixteen_bits_wide(part.tensor));
}

void MpiTensorRuns::pack(MpiBuffers& buffers) {
  for (const auto& part : parts_) {
    auto& run = runs_[part.run];
    if (is_in_place(part)) {
      run.data = part.tensor.data_ptr();
      continue;
    }
    if (run.data == nullptr) {
      memory_.push_back(buffers.take(static_cast<std::size_t>(run.count * run.bytes_of_one)));
      run.data = memory_.back().memory.get();
    }
    void* const to = at_number(run, part.first);
    if (run.type != MPI_BYTE && part.tensor.scalar_type() == torch::kFloat16) {
      widen<c10::Half>(part.tensor, to);
    } else if (run.type != MPI_BYTE && part.tensor.scalar_type() == torch::kBFloat16) {
      widen<c10::BFloat16>(part.tensor, to);
    } else {
      std::memcpy(to, part.tensor.data_ptr(), part.tensor.nbytes());
    }
  }
}

void MpiTensorRuns::unpack(MpiBuffers& buffers) {
  for (const auto& part : parts_) {
    if (is_in_place(part)) continue;
    const auto& run = runs_[part.run];
    const void* const from = at_number(run, part.first);
    if (run.type != MPI_BYTE && part.tensor.scalar_type() == torch::kFloat16) {
      narrow<c10::Half>(from, part.tensor);
    } else if (run.type != MPI_BYTE && part.tensor.scalar_type() == torch::kBFloat16) {
      narrow<c10::BFloat16>(from, part.tensor);
    } else {
      std::memcpy(part.tensor.data_ptr(), from, part.tensor.nbytes());
    }
  }
  for (auto& memory : memory_) buffers.give_back(std::move(memory));
  memory_.clear();
}

}  // namespace adaact
