#include <adaact/ranks/communicator.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include <torch/torch.h>

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
  const auto texts = ranks.gather(text);
  const auto expected = lines_of(texts[0]);
  const std::string nothing = "nothing";
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto lines = lines_of(texts[rank]);
    const auto count = std::max(lines.size(), expected.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto& line = i < lines.size() ? lines[i] : nothing;
      const auto& first = i < expected.size() ? expected[i] : nothing;
      if (line == first) continue;
      throw RankError(ranks.describe(static_cast<std::int64_t>(rank)) + " differs in " + what +
                      ": it has " + line + ", expected " + first + ", which " + ranks.describe(0) +
                      " has");
    }
  }
}

}  // namespace adaact
