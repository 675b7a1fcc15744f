#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <adaact/ranks/communicator.h>
#include <torch/types.h>

namespace adaact {

/// Adds up what each rank has gathered by itself: sums with their counts, under keys that all ranks understand. Ranks
/// need not have the same keys.
///
/// What travels is laid out in one order, which the ranks agree on when somebody has an entry that has no place yet.
/// From then on an addition is one message: the sums as one flat tensor for each dtype and kind of device, and the
/// counts in a tensor on the CPU. On a GPU the host reads no sum, so that an addition can be captured in a CUDA graph,
/// with the counts of that moment.
class SharedSums {
 public:
  struct Entry {
    std::vector<std::int64_t> key;
    torch::Tensor sum;  // undefined where something was seen but not measured
    std::int64_t count = 0;
  };

  explicit SharedSums(std::shared_ptr<Communicator> ranks);

  const Communicator& ranks() const noexcept { return *ranks_; }

  /// The entries of all ranks in one order, the same on all of them; those with the same key and the same dtype and
  /// shape of the sum are added up.
  ///
  /// `own` says what this rank has; it may have nothing. Where it throws, all ranks do: this one what it threw, the
  /// others a RankError that says the same of it.
  ///
  /// A rank sends zeros for what has a place and is not its own. So that nothing of the kind travels where all ranks
  /// know that this time there are other entries than last time, an occasion has a layout of its own. It is the same on
  /// all ranks.
  std::vector<Entry> add_up(const std::function<std::vector<Entry>()>& own,
                            const std::vector<bool>& occasion = {});

 private:
  /// What an entry must have in common with those that it is added to.
  struct Form {
    std::vector<std::int64_t> key;
    bool is_measured = false;
    torch::ScalarType dtype = torch::kFloat32;
    c10::DeviceType device = c10::DeviceType::CPU;
    std::vector<std::int64_t> sizes;

    bool operator<(const Form& other) const;
  };
  struct Place {
    Form form;
    std::int64_t times_absent = 0;  // in a row, on all ranks
  };
  using Kind = std::pair<c10::DeviceType, torch::ScalarType>;
  struct Layout {
    std::vector<Place> places;              // ordered by form
    std::map<Kind, torch::Tensor> buffers;  // of the last message, on the CPU
    std::int64_t last_used = 0;             // the number of the latest addition
  };
  /// The entry of each place, null where this rank has none for it.
  using Placed = std::vector<const Entry*>;
  struct Message {
    std::vector<torch::Tensor> tensors;
    torch::Tensor numbers;            // int64, on the CPU; one of the tensors
    std::vector<torch::Tensor> sums;  // by place: parts of the tensors
  };

  static Form form_of(const Entry& entry);
  static std::string text_of(const std::vector<Entry>& entries);
  static std::vector<Form> forms_in(const std::string& text);

  /// The entries by place, or nothing if one of them has no place yet.
  static std::optional<Placed> find_places(const Layout& layout, const std::vector<Entry>& entries);
  static void check_that_keys_differ(const std::vector<Entry>& entries);
  static torch::Tensor buffer_for(Layout& layout, Kind kind, torch::Device device,
                                  std::int64_t numel);
  static void add_sums(Message& message, Layout& layout, const Placed& own);
  static Message pack(Layout& layout, const Placed& own, bool fits, bool has_failed);
  static std::vector<Entry> unpack(const Message& message, const Layout& layout, const Placed& own);
  static void forget_what_nobody_has(Layout& layout, const Message& message);

  Layout& layout_for(const std::vector<bool>& occasion);
  void agree(Layout& layout, const std::vector<Entry>& entries);
  [[noreturn]] void throw_on_all_ranks(const std::exception_ptr& failure);

  std::shared_ptr<Communicator> ranks_;
  std::map<std::vector<bool>, Layout> layouts_;
  std::int64_t additions_ = 0;
};

/// Which rank does which piece of work, given what the pieces cost: the largest first, each to the rank that has least
/// to do.
std::vector<std::int64_t> dealt_out(const std::vector<double>& costs, std::int64_t ranks);

}  // namespace adaact
