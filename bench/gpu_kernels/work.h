#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

namespace adaact::bench {

constexpr std::size_t kMostSets = 512;
/// Calls of a replay; follows from how long one is to take.
constexpr std::size_t kMostCalls = 256 + kMostSets;

/// Memory that a call works on.
struct Traffic {
  double moved = 0.0;  // bytes; a tensor that is read and written counts twice
  double held = 0.0;   // bytes of all tensors

  void add(const torch::Tensor& tensor, int times) {
    if (!tensor.defined()) return;
    const auto bytes = static_cast<double>(tensor.nbytes());
    moved += times * bytes;
    held += bytes;
  }
};

/// A call, and what it works on.
struct Work {
  std::function<void(std::size_t set)> call;
  std::size_t sets = 1;
  Traffic traffic;                        // of one call
  std::int64_t images = 0;                // that one call makes
  std::function<void()> prepare = [] {};  // what a replay needs; is not timed
};

/// The number of sets that are needed for the L2 cache not to hold what the next call reads.
std::size_t sets_for(double set_bytes);

/// Sets as make() makes them. Shared, because calls outlive the function that asks for them.
template <typename Make, typename BytesOf>
auto rotating_sets(const Make& make, const BytesOf& bytes_of) {
  auto sets = std::make_shared<std::vector<decltype(make())>>();
  sets->push_back(make());
  const auto count = sets_for(bytes_of(sets->front()));
  while (sets->size() < count) sets->push_back(make());
  return sets;
}

/// The work is made when the benchmark runs and freed after it.
void add_benchmark(const std::string& name, const std::function<Work()>& make_work);

// Each adds the benchmarks of one file.
void add_floor_benchmarks();
void add_second_moment_benchmarks();
void add_update_benchmarks();
void add_gradient_benchmarks();
void add_batch_benchmarks();
void add_layer_benchmarks();
void add_graph_benchmarks();

// The models whose parameters, or gradients, are worked on, and in which dtypes.
inline const char* const kModels[] = {"resnet20", "resnet34", "densenet121", "vit_small"};
inline const torch::ScalarType kParameterDtypes[] = {torch::kFloat32, torch::kBFloat16};

inline std::string name_of(torch::ScalarType dtype) {
  if (dtype == torch::kBFloat16) return "bf16";
  return dtype == torch::kHalf ? "fp16" : "fp32";
}

inline std::string name_of(const std::vector<std::int64_t>& shape) {
  std::string name;
  for (const auto size : shape) name += (name.empty() ? "" : "x") + std::to_string(size);
  return name;
}

inline torch::Tensor normal(at::IntArrayRef shape, torch::ScalarType dtype) {
  return torch::randn(shape, torch::kCUDA).to(dtype);
}

inline torch::Tensor positive(at::IntArrayRef shape) {
  return torch::rand(shape, torch::kCUDA) + 0.1;
}

}  // namespace adaact::bench
