#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace adaact {

// TensorBoard's event files: a sequence of records (length, its checksum, bytes, their checksum),
// each an Event message of Protocol Buffers. A scalar needs four fields of it, so they are written
// here rather than by a Protocol Buffers library.

struct Scalar {
  std::string tag;
  double value = 0.0;
};

/// The first record of every file.
std::string event_file_header(double wall_time);

/// One record with scalars of one step.
std::string event_record(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars);

/// CRC-32C (Castagnoli).
std::uint32_t crc32c(const std::string& bytes);

}  // namespace adaact
