#include "fuzz/png_mutator.h"

#include <array>
#include <utility>

#include <zlib.h>

#include "fuzz/gzip_mutator.h"

namespace adaact::fuzz {
namespace {

const std::string kPngSignature = "\x89PNG\r\n\x1A\n";
constexpr std::size_t kMostContent = 1 << 16;  // of what is compressed
constexpr std::size_t kMoreData = 32;          // that a chunk may grow by

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    number = (number << 8) | static_cast<std::uint8_t>(bytes[i]);
  }
  return number;
}

/// Where in a chunk compressed data begin; npos where it has none.
std::size_t begin_of_packed(const PngChunk& chunk) {
  if (chunk.type == "IDAT") return 0;
  if (chunk.type != "zTXt" && chunk.type != "iCCP") return std::string::npos;
  const auto end_of_name = chunk.data.find('\0');
  if (end_of_name == std::string::npos || end_of_name + 2 > chunk.data.size()) {
    return std::string::npos;
  }
  return end_of_name + 2;  // after the method of compression
}

void mutate_data(PngChunk& chunk, Random& random) {
  const auto begin = begin_of_packed(chunk);
  if (begin == std::string::npos || once_in(3, random)) {
    chunk.data = mutate_bytes(chunk.data, chunk.data.size() + kMoreData);
    return;
  }
  const auto content = unpacked(chunk.data.substr(begin), kMostContent);
  chunk.data = chunk.data.substr(0, begin) +
               packed(mutate_bytes(content, std::min(kMostContent, content.size() + 1024)));
}

std::string any_type(Random& random) {
  constexpr std::array<const char*, 17> kTypes{"IHDR", "PLTE", "IDAT", "IEND", "tRNS", "gAMA",
                                               "cHRM", "sRGB", "iCCP", "tEXt", "zTXt", "iTXt",
                                               "bKGD", "pHYs", "hIST", "sPLT", "eXIf"};
  return kTypes[random() % kTypes.size()];
}

void change(std::vector<PngChunk>& chunks, Random& random) {
  const auto place = random() % chunks.size();
  const auto at = chunks.begin() + static_cast<std::ptrdiff_t>(place);
  switch (random() % 8) {
    case 0:
      at->type = any_type(random);
      break;
    case 1:
      chunks.insert(at, PngChunk(*at));
      break;
    case 2:
      if (chunks.size() > 1) chunks.erase(at);
      break;
    case 3:
      std::swap(*at, chunks[random() % chunks.size()]);
      break;
    default:
      mutate_data(*at, random);
  }
}

}  // namespace

std::vector<PngChunk> png_chunks(const std::string& bytes) {
  std::vector<PngChunk> chunks;
  for (auto at = kPngSignature.size(); at + 12 <= bytes.size();) {
    const auto length = number_at(bytes, at);
    if (length > bytes.size() - at - 12) break;
    chunks.push_back({bytes.substr(at + 4, 4), bytes.substr(at + 8, length)});
    at += 12 + length;
  }
  return chunks;
}

std::string png_of(const std::vector<PngChunk>& chunks) {
  auto bytes = kPngSignature;
  for (const auto& chunk : chunks) {
    const auto checked = chunk.type + chunk.data;
    const auto checksum =
        crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
    bytes += big_endian(static_cast<std::uint32_t>(chunk.data.size())) + checked +
             big_endian(static_cast<std::uint32_t>(checksum));
  }
  return bytes;
}

std::string mutate_png(std::string bytes, std::size_t most, Random& random) {
  auto chunks = png_chunks(bytes);
  if (chunks.empty() || once_in(8, random)) return mutate_bytes(std::move(bytes), most);
  change(chunks, random);
  auto mutated = png_of(chunks);
  return mutated.size() <= most ? mutated : bytes;
}

}  // namespace adaact::fuzz
