// Second moments of many layers' inputs on a GPU:
//
//   column squares   S = Σ_b x², in parts: one pass over the inputs
//   window sums      from the parts of S, a few per cent of the inputs, to the sums of the layers
//
// or, where the squares of whole channels were offered and the kernel is 3×3, from these and the borders of the images
// (border squares). All without atomics, so that equal inputs give equal bits.

#include "moments/second_moments_cuda.h"

#include <cstddef>
#include <map>
#include <utility>

#include <c10/cuda/CUDAGuard.h>

#include "kernels/sum_dtype.h"
#include "moments/border_squares_cuda.h"
#include "moments/column_squares_cuda.h"
#include "moments/offered_squares.h"
#include "moments/window_sums_cuda.h"

namespace adaact {
namespace {

/// Narrower rows than this waste most of what is read with them, unless they lie side by side.
constexpr std::int64_t kNarrowRowBytes = 64;

/// The batched input with samples that are one block of memory each, in any order inside.
torch::Tensor with_dense_samples(const torch::Tensor& x) {
  if (!x.select(0, 0).is_non_overlapping_and_dense()) return x.contiguous();
  const auto columns = x.numel() / x.size(0);
  const bool narrow = columns * static_cast<std::int64_t>(x.element_size()) < kNarrowRowBytes;
  return narrow && x.stride(0) != columns ? x.contiguous() : x;
}

/// Inputs that share the buffers: those of one device and one dtype of sums.
class Batch {
 public:
  void add(std::size_t index, const torch::Tensor& batched, const Geometry& geometry) {
    const auto x = with_dense_samples(batched);
    const auto partial = squares_.add(x);
    entries_.push_back({index,
                        x,
                        windows_.add(x, geometry, partial),
                        {geometry.groups, geometry.features(x)},
                        x.size(0) * geometry.positions(x)});
  }

  /// `squares` (R, C), contiguous: rows that add up to the sums.
  void add_squares(std::size_t index, const torch::Tensor& squares, std::int64_t count) {
    entries_.push_back({index, squares, windows_.add_rows(squares), {1, squares.size(1)}, count});
  }

  /// The same of images of which the border is read, too.
  void add_border(std::size_t index, const torch::Tensor& x, const Geometry& geometry,
                  const torch::Tensor& squares) {
    TORCH_INTERNAL_ASSERT(squares.dim() == 2 && squares.size(1) == x.size(1) &&
                          squares.is_contiguous() && squares.scalar_type() == sum_dtype(x));
    of_borders_.push_back({index,
                           x,
                           borders_.add(x, squares),
                           {1, geometry.features(x)},
                           x.size(0) * geometry.positions(x)});
  }

  void run(const torch::TensorOptions& options, std::vector<Moment>& moments) const {
    const auto partial = torch::empty({squares_.size()}, options);
    const auto of_sides = torch::empty({borders_.partial_size()}, options);
    const auto result = torch::empty({windows_.size() + borders_.size()}, options);
    squares_.launch(partial);
    windows_.launch(partial, result);
    borders_.launch(of_sides, result.narrow(0, windows_.size(), borders_.size()));
    const auto hand_over = [&](const Entry& entry, std::int64_t begin) {
      const auto features = entry.shape[1];
      moments[entry.index] = {result.as_strided(entry.shape, {features, 1}, begin + entry.result),
                              entry.count};
    };
    for (const auto& entry : entries_) hand_over(entry, 0);
    for (const auto& entry : of_borders_) hand_over(entry, windows_.size());
  }

 private:
  struct Entry {
    std::size_t index;
    torch::Tensor x;  // kept until the kernels that read it are launched
    std::int64_t result;
    std::vector<std::int64_t> shape;
    std::int64_t count;
  };

  ColumnSquares squares_;
  WindowSums windows_;
  BorderSquares borders_;
  std::vector<Entry> entries_;
  std::vector<Entry> of_borders_;  // their sums come after those of the others
};

void check_is_on_gpu(const torch::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cuda(), "adaact: the input is on ", tensor.device(),
              ", expected a CUDA device");
}

}  // namespace

std::vector<Moment> second_moments_cuda(const std::vector<MomentInput>& inputs) {
  std::vector<Moment> moments(inputs.size());
  std::map<std::pair<c10::DeviceIndex, torch::ScalarType>, Batch> batches;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& [input, geometry, squares, count] = inputs[i];
    const auto batch_of = [&](const torch::Tensor& tensor) -> Batch& {
      return batches[{tensor.device().index(), sum_dtype(tensor)}];
    };
    if (!input.defined()) {
      check_is_on_gpu(squares);
      batch_of(squares).add_squares(i, squares, count);
      continue;
    }
    const auto x = geometry.batched(input);
    check_is_on_gpu(x);
    const c10::cuda::CUDAGuard device(x.device());
    const auto rest = squares.defined() ? still_to_read(input, geometry) : StillToRead::Everything;
    if (rest == StillToRead::Nothing) {
      batch_of(x).add_squares(i, squares, x.size(0) * geometry.positions(x));
    } else if (rest == StillToRead::Border) {
      batch_of(x).add_border(i, x, geometry, squares);
    } else if (x.numel() == 0 || !has_kernels(x.scalar_type()) ||
               !WindowSums::can_add(x, geometry)) {
      moments[i] = second_moment_tensor(input, geometry);
    } else {
      batch_of(x).add(i, x, geometry);
    }
  }
  for (const auto& [device_and_dtype, batch] : batches) {
    const c10::Device device(c10::DeviceType::CUDA, device_and_dtype.first);
    const c10::cuda::CUDAGuard guard(device);
    batch.run(torch::TensorOptions().device(device).dtype(device_and_dtype.second), moments);
  }
  return moments;
}

Moment second_moment_cuda(const torch::Tensor& input, const Geometry& geometry) {
  return second_moments_cuda({{input, geometry}}).front();
}

}  // namespace adaact
