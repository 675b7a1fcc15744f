#include "train/graph/fill_nodes_cuda.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <c10/cuda/CUDAException.h>

#include "kernels/ceil_div.h"

namespace adaact {

#if CUDART_VERSION >= 13000  // the edges of a node have had other functions before

namespace {

constexpr int kFillThreads = 256;
constexpr std::int64_t kMostFillBlocks = 1024;

/// Every byte becomes that of the pattern; both ends may lie anywhere.
__global__ void __launch_bounds__(kFillThreads)
    fill_bytes(unsigned char* to, std::int64_t bytes, unsigned pattern) {
  constexpr std::int64_t kWord = sizeof(uint4);
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const std::int64_t before = static_cast<std::int64_t>((kWord - address % kWord) % kWord);
  const std::int64_t head = before < bytes ? before : bytes;
  const std::int64_t words = (bytes - head) / kWord;
  const auto thread = static_cast<std::int64_t>(blockIdx.x) * kFillThreads + threadIdx.x;
  const auto threads = static_cast<std::int64_t>(gridDim.x) * kFillThreads;
  auto* const aligned = reinterpret_cast<uint4*>(to + head);
  for (auto i = thread; i < words; i += threads) {
    aligned[i] = make_uint4(pattern, pattern, pattern, pattern);
  }
  const auto one = static_cast<unsigned char>(pattern);
  if (thread < head) to[thread] = one;
  for (auto i = head + words * kWord + thread; i < bytes; i += threads) to[i] = one;
}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

/// Whether the node fills one run of bytes with one value.
bool is_plain_fill(cudaGraphNode_t node, cudaMemsetParams& fill) {
  cudaGraphNodeType type{};
  C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
  if (type != cudaGraphNodeTypeMemset) return false;
  C10_CUDA_CHECK(cudaGraphMemsetNodeGetParams(node, &fill));
  return fill.height == 1 && (fill.elementSize == 1 || fill.value == 0);
}

/// What is needed of an edge where it ends.
struct Edges {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> data;
};

template <typename Get>
Edges edges_of(cudaGraphNode_t node, const Get& get) {
  std::size_t count = 0;
  C10_CUDA_CHECK(get(node, nullptr, nullptr, &count));
  Edges edges;
  edges.nodes.resize(count);
  edges.data.resize(count);
  if (count > 0) C10_CUDA_CHECK(get(node, edges.nodes.data(), edges.data.data(), &count));
  return edges;
}

void replace(cudaGraph_t graph, cudaGraphNode_t node, const cudaMemsetParams& fill) {
  const auto before = edges_of(node, cudaGraphNodeGetDependencies);
  const auto after = edges_of(node, cudaGraphNodeGetDependentNodes);
  auto* to = static_cast<unsigned char*>(fill.dst);
  auto bytes = static_cast<std::int64_t>(fill.width * fill.elementSize);
  auto pattern = (fill.value & 0xffU) * 0x01010101U;
  void* arguments[] = {&to, &bytes, &pattern};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(fill_bytes);
  kernel.gridDim = dim3(static_cast<unsigned>(std::clamp<std::int64_t>(
      ceil_div(bytes, kFillThreads * static_cast<std::int64_t>(sizeof(uint4))), 1,
      kMostFillBlocks)));
  kernel.blockDim = dim3(kFillThreads);
  kernel.kernelParams = arguments;
  cudaGraphNode_t in_its_place{};
  C10_CUDA_CHECK(cudaGraphAddKernelNode(&in_its_place, graph, before.nodes.data(),
                                        before.nodes.size(), &kernel));
  const std::vector<cudaGraphNode_t> from(after.nodes.size(), in_its_place);
  if (!after.nodes.empty()) {
    C10_CUDA_CHECK(cudaGraphAddDependencies(graph, from.data(), after.nodes.data(),
                                            after.data.data(), after.nodes.size()));
  }
  C10_CUDA_CHECK(cudaGraphDestroyNode(node));
}

}  // namespace

void replace_fills_by_kernels(cudaGraph_t graph) {
  for (auto* const node : nodes_of(graph)) {
    cudaMemsetParams fill{};
    if (is_plain_fill(node, fill)) replace(graph, node, fill);
  }
}

#else

void replace_fills_by_kernels(cudaGraph_t /*graph*/) {}

#endif

}  // namespace adaact
