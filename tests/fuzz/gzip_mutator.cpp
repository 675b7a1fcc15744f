#include "fuzz/gzip_mutator.h"

#include <utility>

#include <zlib.h>

namespace adaact::fuzz {
namespace {

constexpr int kZlibStream = 15;         // bits of the window
constexpr int kGzipStream = 15 + 16;    // the same, for gzip
constexpr int kEitherStream = 15 + 32;  // by what is there

Bytef* bytef(const std::string& bytes) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

std::string deflated(const std::string& bytes, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = bytef(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = bytef(result);
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

bool is_gzip(const std::string& bytes) { return bytes.rfind("\x1F\x8B", 0) == 0; }

}  // namespace

std::string unpacked(const std::string& bytes, std::size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, kEitherStream) != Z_OK) return {};
  std::string result(most, '\0');
  stream.next_in = bytef(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = bytef(result);
  stream.avail_out = static_cast<uInt>(result.size());
  inflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  inflateEnd(&stream);
  return result;
}

std::string packed(const std::string& bytes) { return deflated(bytes, kZlibStream); }

std::string gzipped(const std::string& bytes) { return deflated(bytes, kGzipStream); }

std::string mutate_maybe_gzip(std::string bytes, std::size_t most, Random& random) {
  constexpr std::size_t kMostContent = 1 << 16;
  if (once_in(4, random)) return mutate_bytes(std::move(bytes), most);
  const bool pack = is_gzip(bytes) || once_in(16, random);
  if (is_gzip(bytes)) bytes = unpacked(bytes, kMostContent);
  if (!pack) return mutate_bytes(std::move(bytes), most);
  return gzipped(mutate_bytes(std::move(bytes), kMostContent));
}

}  // namespace adaact::fuzz
