#include "data/checked_images.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include <c10/util/Exception.h>

#include "data/batch_parts.h"
#include "data/name_list.h"
#include "data/remembered_listing.h"
#include "data/shared_findings.h"
#include "data/user_cache.h"
#include "io/checksum.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kKindOfChecks[] = "adaact.checked_images";
#ifdef ADAACT_WITH_WEBP
constexpr char kFormOfChecks[] = "1, with WebP";
#else
constexpr char kFormOfChecks[] = "1, without WebP";
#endif
constexpr std::uint64_t kNoFingerprint = 0;

/// Calls work(i) for i = first, first + 1 … end - 1, on all cores; where this thread does, own_work(i). After `until`
/// each thread ends with what it is at. Returns the first i that is left. What one of them throws ends the others and
/// is thrown.
template <typename Work, typename OwnWork>
std::size_t on_all_cores(std::size_t first, std::size_t end, Clock::time_point until,
                         const Work& work, const OwnWork& own_work) {
  std::atomic<std::size_t> next{first};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take = [&](const auto& do_work) {
    try {
      for (auto i = next++; i < end; i = next++) {
        do_work(i);
        if (Clock::now() >= until) return;
      }
    } catch (...) {
      next = end;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (auto more = std::thread::hardware_concurrency(); more > 1; --more) {
      others.emplace_back([&] { take(work); });
    }
  } catch (const std::system_error&) {
    // Where no further thread can be started, those that run only take longer.
  }
  take(own_work);
  for (auto& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
  return std::min(next.load(), end);
}

/// The path of an image without the folder, because a folder may be called by several names, with a '/' at its end or
/// without.
std::string path_below(const fs::path& folder, const EncodedImages& images, std::int64_t number) {
  const auto below = images.path(number).string().substr(folder.string().size());
  return below.substr(std::min(below.find_first_not_of('/'), below.size()));
}

/// A number that tells an image as it is now from other images and from what it was before. It is kNoFingerprint where
/// the file is gone.
std::uint64_t fingerprint_of(const EncodedImages& images, const fs::path& folder,
                             std::int64_t number) {
  try {
    const auto stamp = images.stamp(number);
    Crc64 crc;
    crc.update(path_below(folder, images, number));
    crc.update("\n" + std::to_string(stamp.bytes) + " " + std::to_string(stamp.modified));
    return crc.value();
  } catch (const c10::Error&) {
    return kNoFingerprint;
  }
}

std::vector<std::uint64_t> fingerprints_of_all(const EncodedImages& images,
                                               const fs::path& folder) {
  std::vector<std::uint64_t> fingerprints;
  fingerprints.reserve(static_cast<std::size_t>(images.size()));
  for (std::int64_t number = 0; number < images.size(); ++number) {
    fingerprints.push_back(fingerprint_of(images, folder, number));
  }
  return fingerprints;
}

/// A line that tells these images by their names from others, but not from what they were before.
std::string summary_of(const EncodedImages& images, const fs::path& folder,
                       const std::vector<std::int64_t>& numbers) {
  Crc64 names;
  for (const auto number : numbers) names.update(path_below(folder, images, number) + "\n");
  return std::to_string(numbers.size()) + " files whose names have checksum " + names.hex();
}

/// A file that cannot be read today may be readable tomorrow, and look the same.
bool can_be_read(const EncodedImages& images, std::int64_t number) {
  try {
    images.read(number);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

CheckedImages recalled(const fs::path& file) {
  try {
    std::error_code ignored;
    if (!file.empty() && fs::exists(file, ignored)) return CheckedImages::read(file);
  } catch (const std::exception&) {
    // Whatever is wrong with what was kept: the images can be checked again.
  }
  return {};
}

}  // namespace

std::string defect_in(const fs::path& name, const std::function<void()>& decode) {
  try {
    decode();
    return "";
  } catch (const ShardError&) {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::bad_alloc&) {  // another day there may be more of it
    TORCH_CHECK(false, "adaact: ", name.string(), ": there is not enough memory to decode it");
  } catch (const std::exception& error) {
    return "adaact: " + name.string() + ": " + error.what();
  }
}

const std::string* CheckedImages::find(std::uint64_t fingerprint) const {
  static const std::string none;
  if (std::binary_search(sound_.begin(), sound_.end(), fingerprint)) return &none;
  const auto found = bad_.find(fingerprint);
  return found == bad_.end() ? nullptr : &found->second;
}

void CheckedImages::add(const std::vector<std::uint64_t>& fingerprints,
                        const std::vector<std::string>& defects) {
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    if (fingerprints[i] == kNoFingerprint) continue;
    if (defects[i].empty()) {
      sound_.push_back(fingerprints[i]);
    } else {
      bad_[fingerprints[i]] = defects[i];
    }
  }
  std::sort(sound_.begin(), sound_.end());
  sound_.erase(std::unique(sound_.begin(), sound_.end()), sound_.end());
}

void CheckedImages::keep_only(std::vector<std::uint64_t> fingerprints) {
  std::sort(fingerprints.begin(), fingerprints.end());
  const auto is_known = [&](std::uint64_t fingerprint) {
    return std::binary_search(fingerprints.begin(), fingerprints.end(), fingerprint);
  };
  sound_.erase(std::remove_if(sound_.begin(), sound_.end(),
                              [&](std::uint64_t fingerprint) { return !is_known(fingerprint); }),
               sound_.end());
  for (auto at = bad_.begin(); at != bad_.end();) {
    at = is_known(at->first) ? std::next(at) : bad_.erase(at);
  }
}

void CheckedImages::write(const fs::path& file) const {
  TensorFile kept;
  kept.metadata[kKindOfChecks] = kFormOfChecks;
  put_numbers(kept, "sound", {sound_.begin(), sound_.end()});
  std::vector<std::int64_t> bad;
  NameList defects;
  for (const auto& [fingerprint, defect] : bad_) {
    bad.push_back(static_cast<std::int64_t>(fingerprint));
    defects.add(defect);
  }
  put_numbers(kept, "bad", bad);
  defects.put_into(kept, "defects");
  fs::create_directories(file.parent_path());
  kept.write(file);
}

CheckedImages CheckedImages::read(const fs::path& file) {
  const auto kept = TensorFile::read(file, TensorFile::Checksum::Required);
  const auto form = kept.metadata.find(kKindOfChecks);
  if (form == kept.metadata.end() || form->second != kFormOfChecks) return {};
  const auto sound = take_numbers(kept, "sound");
  const auto bad = take_numbers(kept, "bad");
  const auto defects = NameList::taken_from(kept, "defects").strings();
  TORCH_CHECK(bad.size() == defects.size(), "adaact: ", file.string(), " has ", bad.size(),
              " bad images and ", defects.size(), " defects");
  CheckedImages checked;
  checked.add({sound.begin(), sound.end()}, std::vector<std::string>(sound.size()));
  checked.add({bad.begin(), bad.end()}, defects);
  return checked;
}

std::vector<std::string> find_defects(const EncodedImages& images, const fs::path& folder,
                                      const std::vector<std::int64_t>& numbers,
                                      const std::function<std::string(std::size_t)>& defect_of,
                                      const CheckOptions& options) {
  options.progress(0);  // before anything that takes long
  auto& ranks = *options.ranks;
  const bool is_alone = ranks.size() == 1;
  if (!is_alone) check_same_on_all_ranks(ranks, "its images", summary_of(images, folder, numbers));
  const bool remembers = images.size() >= kLeastRemembered;
  const auto file = remembers ? cached_file(folder, ".checked.safetensors") : fs::path();
  auto checked = recalled(file);
  ImageFindings found(numbers.size());
  std::atomic<bool> has_news{false};
  const auto check = [&](std::size_t i) {
    auto& fingerprint = found.fingerprints[i];
    if (!file.empty()) fingerprint = fingerprint_of(images, folder, numbers[i]);
    if (const auto* known = checked.find(fingerprint); known != nullptr) {
      found.defects[i] = *known;
    } else {
      found.defects[i] = defect_of(i);
      has_news = true;
      if (!found.defects[i].empty() && !can_be_read(images, numbers[i])) {
        fingerprint = kNoFingerprint;
      }
    }
  };
  const auto begin_of_part = [&](std::int64_t part) {
    const auto all = static_cast<std::int64_t>(numbers.size());
    return static_cast<std::size_t>(part_begin(all, part, ranks.size()));
  };
  auto next = begin_of_part(ranks.rank());
  const auto end = begin_of_part(ranks.rank() + 1);
  do {
    const auto slice = std::chrono::duration_cast<Clock::duration>(options.between_meetings);
    next = on_all_cores(next, end, is_alone ? Clock::time_point::max() : Clock::now() + slice,
                        check, [&](std::size_t i) {
                          options.progress(i);
                          check(i);
                        });
  } while (!is_so_on_all_ranks(next == end, ranks));
  found.has_news = has_news;
  share_findings(found, ranks);
  if (!file.empty() && found.has_news) {
    try {
      checked.add(found.fingerprints, found.defects);
      // Other splits of the folder keep theirs here too, so that what was not looked for just now may still be there.
      if (checked.size() > images.size()) checked.keep_only(fingerprints_of_all(images, folder));
      checked.write(file);
    } catch (const std::exception&) {
      // No room, or no right to write: the next start checks again.
    }
  }
  return found.defects;
}

}  // namespace adaact
