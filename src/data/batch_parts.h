#pragma once

#include <cstdint>

#include <c10/macros/Macros.h>

namespace adaact {

/// Samples of a batch that come before a part of it. On the CPU and on a GPU.
C10_HOST_DEVICE constexpr std::int64_t part_begin(std::int64_t batch, std::int64_t part,
                                                  std::int64_t parts) {
  return batch * part / parts;
}

/// The same of a batch whose images come in pairs that stay together.
constexpr std::int64_t paired_part_begin(std::int64_t batch, std::int64_t part,
                                         std::int64_t parts) {
  const auto begin = 2 * part_begin((batch + 1) / 2, part, parts);
  return begin < batch ? begin : batch;
}

/// Whether some of the parts have nothing of a batch. The last one always has something.
constexpr bool has_empty_part(std::int64_t batch, std::int64_t parts, bool in_pairs) {
  return (in_pairs ? (batch + 1) / 2 : batch) < parts;
}

}  // namespace adaact
