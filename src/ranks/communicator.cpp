#include <adaact/ranks/communicator.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <utility>

#include <torch/torch.h>

#include "ranks/shared_text.h"

namespace adaact {
namespace {

class SingleProcess : public Communicator {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return 1; }
  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> /*tensors*/) override {
    return std::make_unique<Done>();
  }
  void broadcast(const std::vector<torch::Tensor>& /*tensors*/, std::int64_t root) override {
    TORCH_CHECK(root == 0, "broadcast(): root is ", root, ", expected 0, the only rank");
  }
  bool can_be_captured() const override { return true; }

 private:
  struct Done : Pending {
    void wait() override {}
  };
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string line_for_message(const std::vector<std::string>& lines, std::size_t index) {
  if (index >= lines.size()) return "nothing";
  return lines[index].empty() ? "an empty line" : lines[index];
}

/// What two texts that differ have in the first line that is not the same, for a message.
std::pair<std::string, std::string> first_difference(const std::string& one,
                                                     const std::string& other) {
  const auto ones = lines_of(one);
  const auto others = lines_of(other);
  // With the same lines they can differ in nothing but a line feed after the last one.
  if (ones == others && one.size() > other.size()) return {"a line feed at its end", "none"};
  if (ones == others) return {"no line feed at its end", "one"};
  std::size_t i = 0;
  while (i < ones.size() && i < others.size() && ones[i] == others[i]) ++i;
  return {line_for_message(ones, i), line_for_message(others, i)};
}

}  // namespace

std::shared_ptr<Communicator> single_process() { return std::make_shared<SingleProcess>(); }

void Communicator::barrier() { sum({torch::zeros({1}, torch::kFloat64)}); }

std::vector<std::string> Communicator::gather(const std::string& text) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto own = static_cast<std::size_t>(rank());
  const auto lengths = torch::zeros({size()}, torch::kInt64);
  lengths.data_ptr<std::int64_t>()[own] = static_cast<std::int64_t>(text.size());
  sum({lengths});
  const auto* length = lengths.data_ptr<std::int64_t>();
  const auto longest = *std::max_element(length, length + ranks);
  // A row for each rank, of which the others leave nothing but zeros.
  const auto bytes = torch::zeros({size(), longest}, torch::kUInt8);
  auto* row = bytes.data_ptr<std::uint8_t>();
  if (!text.empty()) std::memcpy(row + rank() * longest, text.data(), text.size());
  if (longest > 0) sum({bytes});
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i, row += longest) {
    texts.emplace_back(reinterpret_cast<const char*>(row), static_cast<std::size_t>(length[i]));
  }
  return texts;
}

std::string Communicator::describe(std::int64_t rank) const {
  return "rank " + std::to_string(rank);
}

void check_same_on_all_ranks(Communicator& ranks, const std::string& what,
                             const std::string& text) {
  // Each rank compares for itself, so that of the texts of many ranks no more than two travel.
  const auto expected = text_of_rank(0, text, ranks);
  const auto differs = torch::zeros({ranks.size()}, torch::kInt64);
  auto* flags = differs.data_ptr<std::int64_t>();
  flags[ranks.rank()] = text == expected ? 0 : 1;
  ranks.sum({differs});
  const auto* first = std::find(flags, flags + ranks.size(), 1);
  const auto rank = static_cast<std::int64_t>(first - flags);
  if (rank == ranks.size()) return;
  const auto [line, of_first] = first_difference(text_of_rank(rank, text, ranks), expected);
  throw RankError(ranks.describe(rank) + " differs in " + what + ": it has " + line +
                  ", expected " + of_first + ", which " + ranks.describe(0) + " has");
}

}  // namespace adaact
