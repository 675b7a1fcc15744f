#pragma once

// What ranks find out about images of which each looks at a part.

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/ranks/communicator.h>

namespace adaact {

/// Of some images, in their order.
struct ImageFindings {
  explicit ImageFindings(std::size_t images) : fingerprints(images), defects(images) {}

  std::vector<std::uint64_t> fingerprints;  // 0: there is none
  std::vector<std::string> defects;         // empty for a sound image
  bool has_news = false;                    // not all of it was known before
};

/// Each rank knows of its part of the images, and nothing of the others; then all know of all.
void share_findings(ImageFindings& findings, Communicator& ranks);

/// Whether `own` is true on every rank.
bool is_so_on_all_ranks(bool own, Communicator& ranks);

}  // namespace adaact
