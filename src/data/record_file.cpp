#include "data/record_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <c10/util/Exception.h>

#include "data/deflate_limit.h"
#include "io/file_descriptor.h"

namespace adaact {

RecordFile::RecordFile(std::filesystem::path path) : path_(std::move(path)) {
  auto file = open_regular_file(path_);
  file_ = gzdopen(file.number(), "rb");
  TORCH_CHECK(file_ != nullptr, "adaact: ", path_.string(),
              " cannot be opened: ", std::strerror(errno));
  file.release();  // closed with file_
  gzbuffer(file_, 1 << 17);
}

RecordFile::~RecordFile() { gzclose(file_); }

std::int64_t RecordFile::read_some(std::uint8_t* to, std::int64_t bytes) {
  constexpr std::int64_t kMost = 1 << 30;  // gzread takes and gives 32-bit counts
  const auto count = gzread(file_, to, static_cast<unsigned>(std::min(bytes, kMost)));
  if (count > 0) {
    offset_ += count;
    return count;
  }
  int code = Z_OK;
  const char* message = gzerror(file_, &code);
  TORCH_CHECK(code != Z_BUF_ERROR, "adaact: ", path_.string(),
              " is truncated: its compressed data end early, at byte ", offset_,
              " of the unpacked content");
  TORCH_CHECK(code != Z_ERRNO, "adaact: ", path_.string(), " cannot be read at byte ", offset_,
              ": ", std::strerror(errno));
  TORCH_CHECK(code == Z_OK || code == Z_STREAM_END, "adaact: ", path_.string(),
              " is damaged at byte ", offset_, " of the unpacked content: ", message);
  return 0;
}

void RecordFile::read(std::uint8_t* to, std::int64_t bytes, const char* what) {
  const auto begin = offset_;
  while (offset_ < begin + bytes) {
    const auto count = read_some(to + (offset_ - begin), begin + bytes - offset_);
    TORCH_CHECK(count > 0, "adaact: ", path_.string(), " is truncated: it ends at byte ", offset_,
                ", in ", what, " from byte ", begin, " to ", begin + bytes);
  }
}

std::uint32_t RecordFile::read_uint32(const char* what) {
  std::array<std::uint8_t, 4> bytes{};
  read(bytes.data(), bytes.size(), what);
  std::uint32_t value = 0;
  for (const auto byte : bytes) value = (value << 8) | byte;
  return value;
}

void RecordFile::expect_end() {
  const auto end = offset_;
  std::uint8_t more = 0;
  TORCH_CHECK(read_some(&more, 1) == 0, "adaact: ", path_.string(),
              " is too long: it goes on after byte ", end, ", where it should end");
}

void RecordFile::expect_room_for(std::int64_t bytes) const {
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  TORCH_CHECK(bytes / kBestDeflateRatio <= size, "adaact: ", path_.string(),
              " is truncated or no data file: its header announces ", bytes,
              " bytes, which a file of ", size, " bytes cannot hold");
}

}  // namespace adaact
