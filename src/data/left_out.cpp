#include "data/left_out.h"

#include <c10/util/Exception.h>

#include "io/joined.h"
#include "io/printable.h"

namespace adaact {
namespace {

constexpr std::size_t kNamesShown = 3;

}  // namespace

void LeftOut::add(Because reason, const std::filesystem::path& path) {
  auto& files = files_[static_cast<std::size_t>(reason)];
  ++files.count;
  if (files.first_names.size() < kNamesShown) {
    files.first_names.push_back(printable(path.filename().string()));
  }
}

std::int64_t LeftOut::count() const {
  std::int64_t sum = 0;
  for (const auto& files : files_) sum += files.count;
  return sum;
}

std::string LeftOut::text(const std::string& where) const {
  struct Words {
    std::string one;
    std::string several;
  };
  const std::array<Words, 6> reasons{
      Words{std::string("is not ") + kImageNames, std::string("are not ") + kImageNames},
      Words{"is no regular file", "are no regular files"},
      Words{"is in no class's folder", "are in no class's folder"},
      Words{"cannot be decoded", "cannot be decoded"},
      Words{"has no image beside it", "have no image beside them"},
      Words{"is no shard", "are no shards"}};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const auto& [number, names] = files_[i];
    if (number == 0) continue;
    const bool more = number > static_cast<std::int64_t>(names.size());
    parts.push_back(std::to_string(number) + " " +
                    (number == 1 ? reasons[i].one : reasons[i].several) + " (" + joined(names) +
                    (more ? ", …)" : ")"));
  }
  return std::to_string(count()) + (count() == 1 ? " file" : " files") + where +
         " left out: " + joined(parts);
}

void LeftOut::put_into(TensorFile& file) const {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    counts.push_back(files_[i].count);
    NameList::of(files_[i].first_names).put_into(file, "left_out." + std::to_string(i));
  }
  put_numbers(file, "left_out", counts);
}

LeftOut LeftOut::taken_from(const TensorFile& file) {
  LeftOut left_out;
  const auto counts = take_numbers(file, "left_out");
  TORCH_CHECK(counts.size() == left_out.files_.size(), "adaact: 'left_out' has ", counts.size(),
              " numbers, expected ", left_out.files_.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto names = NameList::taken_from(file, "left_out." + std::to_string(i)).strings();
    TORCH_CHECK(counts[i] >= static_cast<std::int64_t>(names.size()) && names.size() <= kNamesShown,
                "adaact: 'left_out' has ", names.size(), " names of ", counts[i], " files");
    left_out.files_[i] = {counts[i], names};
  }
  return left_out;
}

}  // namespace adaact
