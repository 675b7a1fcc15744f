#include "ranks/shared_sums.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include <torch/torch.h>

namespace adaact {
namespace {

/// A sum starts in its message at a multiple of so many numbers, as the allocator's tensors do: kernels are chosen by
/// addresses.
constexpr std::int64_t kNumbersAligned = 16;

/// A place that no rank had an entry for in so many additions is given up. A layer that is left out at random comes
/// back before; one that is frozen for good no longer travels as zeros.
constexpr std::int64_t kMostTimesAbsent = 100;

/// The layouts of so many occasions are remembered. Optimizers have as many as their periods make; where layers are left
/// out at random, there may be a new occasion in every step.
constexpr std::size_t kMostLayouts = 64;

/// The numbers that a message begins with: how many ranks have an entry without a place, and how many have failed.
enum Flag : std::int64_t { kMisfits, kFailures, kFlags };
/// The numbers of a message for each place: how many ranks have an entry for it, and the sum of their counts.
enum NumberOfPlace : std::int64_t { kRanksPresent, kCountOfRanks, kNumbersOfPlace };

std::int64_t number_of(std::size_t place, NumberOfPlace which) {
  return kFlags + static_cast<std::int64_t>(place) * kNumbersOfPlace + which;
}

std::int64_t numel_of(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t aligned_numel(std::int64_t numel) {
  return (numel + kNumbersAligned - 1) / kNumbersAligned * kNumbersAligned;
}

void write_list(std::ostream& out, const std::vector<std::int64_t>& list) {
  out << list.size() << ' ';
  for (const auto number : list) out << number << ' ';
}

std::vector<std::int64_t> read_list(std::istream& in) {
  std::size_t size = 0;
  in >> size;
  std::vector<std::int64_t> list(size);
  for (auto& number : list) in >> number;
  return list;
}

std::string text_of_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

}  // namespace

bool SharedSums::Form::operator<(const Form& other) const {
  return std::tie(key, is_measured, dtype, device, sizes) <
         std::tie(other.key, other.is_measured, other.dtype, other.device, other.sizes);
}

SharedSums::SharedSums(std::shared_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

SharedSums::Form SharedSums::form_of(const Entry& entry) {
  Form form;
  form.key = entry.key;
  form.is_measured = entry.sum.defined();
  if (form.is_measured) {
    form.dtype = entry.sum.scalar_type();
    form.device = entry.sum.device().type();
    form.sizes = entry.sum.sizes().vec();
  }
  return form;
}

std::string SharedSums::text_of(const std::vector<Entry>& entries) {
  std::ostringstream out;
  for (const auto& entry : entries) {
    const auto form = form_of(entry);
    write_list(out, form.key);
    out << form.is_measured << ' ' << static_cast<int>(form.dtype) << ' '
        << static_cast<int>(form.device) << ' ';
    write_list(out, form.sizes);
  }
  return out.str();
}

std::vector<SharedSums::Form> SharedSums::forms_in(const std::string& text) {
  std::vector<Form> forms;
  std::istringstream in(text);
  while (in >> std::ws && !in.eof()) {
    auto& form = forms.emplace_back();
    int dtype = 0;
    int device = 0;
    form.key = read_list(in);
    in >> form.is_measured >> dtype >> device;
    form.dtype = static_cast<torch::ScalarType>(dtype);
    form.device = static_cast<c10::DeviceType>(device);
    form.sizes = read_list(in);
    TORCH_CHECK(in, "adaact: a rank described what it sums in words that cannot be read: ", text);
  }
  return forms;
}

std::optional<SharedSums::Placed> SharedSums::find_places(const Layout& layout,
                                                          const std::vector<Entry>& entries) {
  Placed placed(layout.places.size(), nullptr);
  for (const auto& entry : entries) {
    const auto form = form_of(entry);
    const auto found =
        std::lower_bound(layout.places.begin(), layout.places.end(), form,
                         [](const Place& place, const Form& than) { return place.form < than; });
    if (found == layout.places.end() || form < found->form) return std::nullopt;
    placed[static_cast<std::size_t>(found - layout.places.begin())] = &entry;
  }
  return placed;
}

/// Throws where two entries have the same place, because the first of them would be lost.
void SharedSums::check_that_keys_differ(const std::vector<Entry>& entries) {
  std::set<Form> forms;
  for (const auto& entry : entries) {
    TORCH_CHECK(forms.insert(form_of(entry)).second, "adaact: there are two sums under the key ",
                at::IntArrayRef(entry.key), ", expected one");
  }
}

/// The memory that a message's numbers of one kind are written to. On the CPU it is that of the last message, unless
/// somebody still reads the sums that came in it. On a GPU it is new each time: the allocator there is as quick, and knows
/// what a graph holds on to.
torch::Tensor SharedSums::buffer_for(Layout& layout, Kind kind, torch::Device device,
                                     std::int64_t numel) {
  const auto options = torch::dtype(kind.second).device(device);
  if (!device.is_cpu()) return torch::empty({numel}, options);
  auto& kept = layout.buffers[kind];
  const bool is_free = kept.defined() && kept.numel() == numel && kept.storage().use_count() == 1;
  if (!is_free) kept = torch::empty({numel}, options);
  return kept;
}

void SharedSums::add_sums(Message& message, Layout& layout, const Placed& own) {
  message.sums.resize(layout.places.size());
  std::map<Kind, std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    const auto& form = layout.places[i].form;
    if (form.is_measured) kinds[{form.device, form.dtype}].push_back(i);
  }
  for (const auto& [kind, places] : kinds) {
    // A rank that has nothing takes part on its current device.
    torch::Device device(kind.first);
    std::int64_t numel = 0;
    std::int64_t longest_gap = 0;
    const auto gap_at = [&](std::size_t place) {
      const auto of_place = numel_of(layout.places[place].form.sizes);
      return aligned_numel(of_place) - (own[place] != nullptr ? of_place : 0);
    };
    for (auto place = places.rbegin(); place != places.rend(); ++place) {
      if (own[*place] != nullptr) device = own[*place]->sum.device();
      numel += aligned_numel(numel_of(layout.places[*place].form.sizes));
      longest_gap = std::max(longest_gap, gap_at(*place));
    }
    auto flat = buffer_for(layout, kind, device, numel);
    const auto zeros = torch::zeros({longest_gap}, flat.options());
    std::vector<torch::Tensor> pieces;
    std::int64_t offset = 0;
    for (const auto place : places) {
      const auto& sizes = layout.places[place].form.sizes;
      if (own[place] != nullptr) pieces.push_back(own[place]->sum.to(device).reshape({-1}));
      if (gap_at(place) > 0) pieces.push_back(zeros.narrow(0, 0, gap_at(place)));
      message.sums[place] = flat.narrow(0, offset, numel_of(sizes)).view(sizes);
      offset += aligned_numel(numel_of(sizes));
    }
    if (numel == 0) continue;
    at::cat_out(flat, pieces);
    message.tensors.push_back(flat);
  }
}

SharedSums::Message SharedSums::pack(Layout& layout, const Placed& own, bool fits,
                                     bool has_failed) {
  Message message;
  add_sums(message, layout, own);
  message.numbers = torch::zeros({number_of(layout.places.size(), kRanksPresent)}, torch::kInt64);
  auto* numbers = message.numbers.data_ptr<std::int64_t>();
  numbers[kMisfits] = fits ? 0 : 1;
  numbers[kFailures] = has_failed ? 1 : 0;
  for (std::size_t place = 0; place < own.size(); ++place) {
    if (own[place] == nullptr) continue;
    numbers[number_of(place, kRanksPresent)] = 1;
    numbers[number_of(place, kCountOfRanks)] = own[place]->count;
  }
  message.tensors.push_back(message.numbers);
  return message;
}

std::vector<SharedSums::Entry> SharedSums::unpack(const Message& message, const Layout& layout,
                                                  const Placed& own) {
  const auto* numbers = message.numbers.data_ptr<std::int64_t>();
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    if (numbers[number_of(i, kRanksPresent)] == 0) continue;
    auto sum = message.sums[i];
    if (sum.defined() && own[i] != nullptr) sum = sum.to(own[i]->sum.device());
    entries.push_back(
        {layout.places[i].form.key, std::move(sum), numbers[number_of(i, kCountOfRanks)]});
  }
  return entries;
}

/// Gives up places that no rank has had an entry for in a long time. All ranks know the same of that, and need not ask
/// one another.
void SharedSums::forget_what_nobody_has(Layout& layout, const Message& message) {
  const auto* numbers = message.numbers.data_ptr<std::int64_t>();
  std::vector<Place> kept;
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    auto place = std::move(layout.places[i]);
    place.times_absent = numbers[number_of(i, kRanksPresent)] > 0 ? 0 : place.times_absent + 1;
    if (place.times_absent <= kMostTimesAbsent) kept.push_back(std::move(place));
  }
  layout.places = std::move(kept);
}

void SharedSums::agree(Layout& layout, const std::vector<Entry>& entries) {
  std::map<Form, std::int64_t> times_absent;
  for (auto& place : layout.places) times_absent[place.form] = place.times_absent;
  for (const auto& text : ranks_->gather(text_of(entries))) {
    for (auto& form : forms_in(text)) times_absent[std::move(form)] = 0;
  }
  layout.places.clear();
  for (const auto& [form, times] : times_absent) layout.places.push_back({form, times});
}

void SharedSums::throw_on_all_ranks(const std::exception_ptr& failure) {
  const std::string mark =
      "!";  // begins the text of a rank that has failed, which is empty otherwise
  const auto texts = ranks_->gather(failure ? mark + text_of_failure(failure) : std::string());
  if (failure) std::rethrow_exception(failure);
  const auto first = std::find_if(texts.begin(), texts.end(),
                                  [](const std::string& text) { return !text.empty(); });
  throw RankError(ranks_->describe(first - texts.begin()) + ": " + first->substr(mark.size()));
}

/// The layout of an occasion, which may be a new and empty one. Gives up the one that was used longest ago where there
/// are too many. All ranks have the same occasions one after the other, and give up the same.
SharedSums::Layout& SharedSums::layout_for(const std::vector<bool>& occasion) {
  auto& layout = layouts_[occasion];
  layout.last_used = ++additions_;
  if (layouts_.size() > kMostLayouts) {
    layouts_.erase(
        std::min_element(layouts_.begin(), layouts_.end(), [](const auto& one, const auto& other) {
          return one.second.last_used < other.second.last_used;
        }));
  }
  return layout;
}

std::vector<SharedSums::Entry> SharedSums::add_up(const std::function<std::vector<Entry>()>& own,
                                                  const std::vector<bool>& occasion) {
  if (ranks_->is_alone()) return own();
  auto& layout = layout_for(occasion);
  std::vector<Entry> entries;
  std::exception_ptr failure;
  std::optional<Placed> placed;
  try {
    entries = own();
    check_that_keys_differ(entries);
    placed = find_places(layout, entries);
  } catch (...) {
    failure = std::current_exception();
  }
  const bool fits = placed.has_value() || failure;
  if (!placed) placed.emplace(layout.places.size(), nullptr);
  auto message = pack(layout, *placed, fits, failure != nullptr);
  ranks_->sum(message.tensors);

  const auto* numbers = message.numbers.data_ptr<std::int64_t>();
  if (numbers[kFailures] > 0) throw_on_all_ranks(failure);
  if (numbers[kMisfits] > 0) {
    message = Message();
    agree(layout, entries);
    placed = find_places(layout, entries);
    message = pack(layout, *placed, /*fits=*/true, /*has_failed=*/false);
    ranks_->sum(message.tensors);
  }
  auto added_up = unpack(message, layout, *placed);
  forget_what_nobody_has(layout, message);
  return added_up;
}

std::vector<std::int64_t> dealt_out(const std::vector<double>& costs, std::int64_t ranks) {
  std::vector<std::size_t> pieces(costs.size());
  std::iota(pieces.begin(), pieces.end(), std::size_t{0});
  std::stable_sort(pieces.begin(), pieces.end(),
                   [&](std::size_t one, std::size_t other) { return costs[one] > costs[other]; });
  std::vector<double> load(static_cast<std::size_t>(ranks), 0.0);
  std::vector<std::int64_t> rank_of(costs.size());
  for (const auto piece : pieces) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += costs[piece];
    rank_of[piece] = least - load.begin();
  }
  return rank_of;
}

}  // namespace adaact
