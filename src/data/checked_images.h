#pragma once

// Which images of a folder cannot be decoded, looked for on all cores and remembered.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <adaact/ranks/communicator.h>

#include "data/encoded_images.h"

namespace adaact {

/// What is wrong with an image that cannot be decoded; empty where nothing is. What is no fault of the image is
/// thrown: something is wrong with its shard, or memory is short.
std::string defect_in(const std::filesystem::path& name, const std::function<void()>& decode);

/// The result of checks, by a fingerprint of an image's name, size and time of modification: what changes is
/// checked again.
class CheckedImages {
 public:
  /// Null where the image has not been checked.
  const std::string* find(std::uint64_t fingerprint) const;
  void add(const std::vector<std::uint64_t>& fingerprints, const std::vector<std::string>& defects);

  /// Of how many images.
  std::int64_t size() const { return static_cast<std::int64_t>(sound_.size() + bad_.size()); }
  /// Forgets all other images: those that are gone, or were something else when they were checked.
  void keep_only(std::vector<std::uint64_t> fingerprints);

  void write(const std::filesystem::path& file) const;
  /// Nothing, where the file is no such one or was written by a program with other decoders.
  static CheckedImages read(const std::filesystem::path& file);

 private:
  std::vector<std::uint64_t> sound_;  // sorted
  std::map<std::uint64_t, std::string> bad_;
};

struct CheckOptions {
  /// The calling thread is told of the places that it has come to, the first of them at once; what this throws ends
  /// the check.
  std::function<void(std::size_t place)> progress = [](std::size_t) {};
  /// Who calls this with the same images: each rank checks a part of them.
  std::shared_ptr<Communicator> ranks = single_process();
  /// A rank that is late for a sum is taken for lost. So ranks that still check images meet the others so often, which
  /// is much less than MpiOptions::timeout.
  std::chrono::duration<double> between_meetings = std::chrono::seconds(2);
};

/// The defects of some images of a folder, in their order; empty texts for sound ones. `defect_of` checks the
/// image at a place in `numbers`; of a large folder only those that have not been checked before.
std::vector<std::string> find_defects(const EncodedImages& images,
                                      const std::filesystem::path& folder,
                                      const std::vector<std::int64_t>& numbers,
                                      const std::function<std::string(std::size_t)>& defect_of,
                                      const CheckOptions& options = {});

}  // namespace adaact
