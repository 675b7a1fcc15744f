#include "data/plain_jpeg.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <c10/util/ArrayRef.h>

#include "data/decode_image.h"

namespace adaact {
namespace {

using JpegBytes = c10::ArrayRef<std::uint8_t>;

namespace marker {
constexpr std::uint8_t kBaseline = 0xC0;
constexpr std::uint8_t kProgressive = 0xC2;
constexpr std::uint8_t kHuffmanTables = 0xC4;
constexpr std::uint8_t kFirstRestart = 0xD0;
constexpr std::uint8_t kLastRestart = 0xD7;
constexpr std::uint8_t kBegin = 0xD8;
constexpr std::uint8_t kEnd = 0xD9;
constexpr std::uint8_t kScan = 0xDA;
constexpr std::uint8_t kQuantizers = 0xDB;
constexpr std::uint8_t kRestartInterval = 0xDD;
constexpr std::uint8_t kFirstApplication = 0xE0;
constexpr std::uint8_t kAdobe = 0xEE;
constexpr std::uint8_t kLastApplication = 0xEF;
constexpr std::uint8_t kComment = 0xFE;
}  // namespace marker

/// The smallest side. Of narrower images libjpeg does not spread the colours.
constexpr std::int64_t kLeastPlainSide = 16;
constexpr std::size_t kMostComponents = 3;
constexpr std::uint8_t kOnePixel = 0x11;     // samples of a component in 1×1 pixels
constexpr std::uint8_t kTwoColumns = 0x21;   // in two columns
constexpr std::uint8_t kTwoByTwo = 0x22;     // in 2×2 pixels
constexpr std::uint8_t kLastFrequency = 63;  // of a block of 8×8 samples

std::int64_t two_bytes(JpegBytes bytes, std::size_t at) {
  return std::int64_t{bytes[at]} * 256 + bytes[at + 1];
}

/// Reads a file from its beginning to its end. Whatever is unusual makes a function return false, and the file is not a
/// plain one.
class PlainJpegReader {
 public:
  explicit PlainJpegReader(JpegBytes file) : file_(file) {}

  std::optional<PlainJpeg> read() {
    if (file_.size() < 2 || file_[0] != 0xFF || file_[1] != marker::kBegin) return std::nullopt;
    at_ = 2;
    while (const auto next = next_marker()) {
      if (*next == marker::kEnd) return finished();
      const auto content = next_segment();
      if (!content || !take(*next, *content)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  struct Component {
    std::uint8_t sampling = 0;
    std::uint8_t quantizer = 0;
    bool begun = false;  // a scan has brought its means
  };

  struct ScanOf {
    int first;  // frequency; the mean is 0
    int last;
    int bits_known;  // the lowest bit that scans before have brought; 0: none have
    int bits_left;   // the lowest bit that this one brings
  };

  std::optional<std::uint8_t> next_marker() {
    if (at_ >= file_.size() || file_[at_] != 0xFF) return std::nullopt;
    while (at_ < file_.size() && file_[at_] == 0xFF) ++at_;  // more of them are filling
    if (at_ >= file_.size()) return std::nullopt;
    return file_[at_++];
  }

  /// Its content, without the length, which counts itself.
  std::optional<JpegBytes> next_segment() {
    if (file_.size() - at_ < 2) return std::nullopt;
    const auto length = static_cast<std::size_t>(two_bytes(file_, at_));
    if (length < 2 || length > file_.size() - at_) return std::nullopt;
    const auto content = file_.slice(at_ + 2, length - 2);
    at_ += length;
    return content;
  }

  bool take(std::uint8_t kind, JpegBytes content) {
    switch (kind) {
      case marker::kBaseline:
      case marker::kProgressive:
        found_.progressive = kind == marker::kProgressive;
        return take_frame(content);
      case marker::kHuffmanTables:
        return take_huffman_tables(content);
      case marker::kQuantizers:
        return take_quantizers(content);
      case marker::kRestartInterval:
        restarts_ = content.size() == 2 && two_bytes(content, 0) > 0;
        return content.size() == 2;
      case marker::kScan:
        return take_scan(content) && pass_over_coded_pixels();
      case marker::kAdobe:
        take_adobe(content);
        return true;
      default:
        return kind == marker::kComment ||
               (kind >= marker::kFirstApplication && kind <= marker::kLastApplication);
    }
  }

  bool take_frame(JpegBytes content) {
    constexpr std::size_t kFixed = 6;
    if (count_ != 0 || content.size() < kFixed) return false;
    found_.height = two_bytes(content, 1);
    found_.width = two_bytes(content, 3);
    count_ = content[5];
    const bool eight_bits = content[0] == 8;
    if (!eight_bits || (count_ != 1 && count_ != kMostComponents)) return false;
    if (content.size() != kFixed + 3 * count_) return false;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto of_component = content.slice(kFixed + 3 * i, 3);
      if (of_component[0] != i + 1) return false;  // other numbers may mean RGB
      components_[i] = {of_component[1], of_component[2]};
    }
    return has_plain_sampling() && has_plain_size();
  }

  bool has_plain_sampling() {
    const auto first = components_[0].sampling;
    found_.shares_colour = first != kOnePixel;
    if (count_ == 1) return first == kOnePixel;
    return (first == kOnePixel || first == kTwoColumns || first == kTwoByTwo) &&
           components_[1].sampling == kOnePixel && components_[2].sampling == kOnePixel;
  }

  /// Huffman coding spends a bit at least on every block of 64 samples.
  bool has_plain_size() const {
    const auto pixels = found_.height * found_.width;
    return std::min(found_.height, found_.width) >= kLeastPlainSide && pixels <= kMostPixels &&
           pixels / 64 / 8 <= static_cast<std::int64_t>(file_.size());
  }

  /// Each is a byte that says which, and 64 numbers of a byte.
  bool take_quantizers(JpegBytes content) {
    constexpr std::size_t kTable = 65;
    if (content.size() % kTable != 0) return false;
    for (std::size_t at = 0; at < content.size(); at += kTable) {
      if (content[at] >= has_quantizer_.size()) return false;
      has_quantizer_[content[at]] = true;
    }
    return true;
  }

  /// Each is a byte that says which, how many codes there are of 1 to 16 bits, and what they mean.
  bool take_huffman_tables(JpegBytes content) {
    constexpr std::size_t kFixed = 17;
    while (!content.empty()) {
      if (content.size() < kFixed) return false;
      const auto kind = content[0] >> 4;  // of means, or of the other frequencies
      const auto number = content[0] & 15;
      const auto counts = content.slice(1, kFixed - 1);
      const auto codes = codes_of(counts);
      if (kind > 1 || number > 1 || codes == 0 || codes > content.size() - kFixed) return false;
      const auto meanings = content.slice(kFixed, codes);
      // Of a mean it is how many bits its difference has.
      constexpr std::uint8_t kMostBits = 11;
      const auto most_bits = *std::max_element(meanings.begin(), meanings.end());
      if (kind == 0 && most_bits > kMostBits) return false;
      has_codes_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(number)] = true;
      content = content.slice(kFixed + codes);
    }
    return true;
  }

  /// How many there are; 0 where there are more than have different bits. No code has ones alone.
  static std::size_t codes_of(JpegBytes counts) {
    std::size_t all = 0;
    std::size_t next_code = 0;
    for (std::size_t bits = 1; bits <= counts.size(); ++bits) {
      const auto count = counts[bits - 1];
      all += count;
      next_code = 2 * next_code + count;
      if (next_code >= std::size_t{1} << bits) return 0;
    }
    return all <= 256 ? all : 0;
  }

  /// Of several programs' segments of this kind only Adobe's says something about colours, in its last byte.
  void take_adobe(JpegBytes content) {
    constexpr std::string_view kName = "Adobe";
    constexpr std::size_t kLeast = 12;
    if (content.size() < kLeast || std::memcmp(content.data(), kName.data(), kName.size()) != 0)
      return;
    constexpr std::uint8_t kYCbCr = 1;
    adobe_says_otherwise_ = content[11] != kYCbCr;
  }

  /// How many components, for each its number and tables, the first and the last frequency, and which bits of them.
  bool take_scan(JpegBytes content) {
    const std::size_t count = content.empty() ? 0 : content[0];
    if (count_ == 0 || count == 0 || count > count_ || content.size() != 4 + 2 * count)
      return false;
    ++scans_;
    if (scans_ > kMostScans || scans_ > kMostScannedPixels / (found_.height * found_.width))
      return false;
    const auto frequencies = content.slice(1 + 2 * count);
    const ScanOf scan{frequencies[0], frequencies[1], frequencies[2] >> 4, frequencies[2] & 15};
    if (!(found_.progressive ? is_progressive(scan, count) : is_baseline(scan, count)))
      return false;
    std::uint8_t last = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = content[1 + 2 * i];
      if (number <= last || number > count_) return false;
      if (!take_component(components_[number - 1U], scan, content[2 + 2 * i])) return false;
      last = number;
    }
    return true;
  }

  bool is_baseline(const ScanOf& scan, std::size_t count) const {
    return scans_ == 1 && count == count_ && scan.first == 0 && scan.last == kLastFrequency &&
           scan.bits_known == 0 && scan.bits_left == 0;
  }

  static bool is_progressive(const ScanOf& scan, std::size_t count) {
    constexpr int kMostBitsLeft = 13;
    const bool of_means = scan.first == 0 && scan.last == 0;
    const bool of_frequencies =
        scan.first > 0 && scan.first <= scan.last && scan.last <= kLastFrequency && count == 1;
    return (of_means || of_frequencies) && scan.bits_left <= kMostBitsLeft &&
           (scan.bits_known == 0 || scan.bits_known == scan.bits_left + 1);
  }

  bool take_component(Component& component, const ScanOf& scan, std::uint8_t tables) {
    const std::size_t means = tables >> 4;
    const std::size_t others = tables & 15;
    const bool is_first = scan.bits_known == 0;
    if (component.quantizer >= has_quantizer_.size() || !has_quantizer_[component.quantizer])
      return false;
    // The bits of means that come later are not coded.
    if (scan.first == 0 && is_first && (means > 1 || !has_codes_[0][means])) return false;
    if (scan.last > 0 && (others > 1 || !has_codes_[1][others])) return false;
    if (scan.first == 0) {
      if (component.begun == is_first) return false;
      component.begun = true;
    }
    return component.begun;
  }

  /// They end with a marker. FF among them is followed by 0; marks to start again are allowed where they are announced.
  bool pass_over_coded_pixels() {
    while (at_ < file_.size()) {
      const auto* found = static_cast<const std::uint8_t*>(
          std::memchr(file_.data() + at_, 0xFF, file_.size() - at_));
      if (found == nullptr || found + 1 == file_.end()) return false;
      at_ = static_cast<std::size_t>(found - file_.data());
      const auto next = found[1];
      const bool restart = next >= marker::kFirstRestart && next <= marker::kLastRestart;
      if (next != 0 && !restart) return true;
      if (restart && !restarts_) return false;
      at_ += 2;
    }
    return false;
  }

  std::optional<PlainJpeg> finished() {
    const auto first = components_.begin();
    const bool complete =
        count_ != 0 && std::all_of(first, first + count_, [](const auto& of) { return of.begun; });
    const bool is_colour = count_ == kMostComponents;
    if (!complete || (is_colour && adobe_says_otherwise_)) return std::nullopt;
    found_.size = at_;
    return found_;
  }

  const JpegBytes file_;
  std::size_t at_ = 0;
  PlainJpeg found_;
  std::size_t count_ = 0;  // components; 0 before the frame
  std::array<Component, kMostComponents> components_{};
  std::array<bool, 4> has_quantizer_{};
  std::array<std::array<bool, 2>, 2> has_codes_{};  // of means and others
  std::int64_t scans_ = 0;
  bool restarts_ = false;
  bool adobe_says_otherwise_ = false;
};

}  // namespace

std::optional<PlainJpeg> plain_jpeg(const std::uint8_t* bytes, std::size_t size) {
  return PlainJpegReader({bytes, size}).read();
}

}  // namespace adaact
