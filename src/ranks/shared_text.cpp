#include "ranks/shared_text.h"

#include <algorithm>

#include <torch/torch.h>

namespace adaact {

std::string text_of_rank(std::int64_t root, const std::string& own, Communicator& ranks) {
  const auto size = torch::full({1}, static_cast<std::int64_t>(own.size()), torch::kInt64);
  ranks.broadcast({size}, root);
  const auto bytes = torch::empty({size.item<std::int64_t>()}, torch::kUInt8);
  if (ranks.rank() == root) std::copy(own.begin(), own.end(), bytes.data_ptr<std::uint8_t>());
  if (bytes.numel() > 0) ranks.broadcast({bytes}, root);
  const auto* begin = bytes.data_ptr<std::uint8_t>();
  return {begin, begin + bytes.numel()};
}

}  // namespace adaact
