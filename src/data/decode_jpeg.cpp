#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>

#include <c10/util/Exception.h>
#include <jpeglib.h>

// Behind jpeglib.h, which says what this libjpeg can do and with it which messages it has.
#include <jerror.h>

#include "data/decode_image.h"

namespace adaact {
namespace {

/// libjpeg leaves on an error by longjmp, which runs no destructors. So it is only called from the
/// static steps below, which have nothing to destroy, and every jump lands in guarded().
class JpegDecoder {
 public:
  JpegDecoder(const EncodedImage& file, std::int64_t enough) : file_(file), enough_(enough) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_warning;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  RgbImage decode() {
    begin();
    begin_pixels_of({0, 0, info_.image_height, info_.image_width});
    box_ = {0, 0, info_.output_height, info_.output_width};
    return pixels();
  }

  RgbImage decode_part(const ChooseBox& choose) {
    begin();
    const auto box = choose(info_.image_height, info_.image_width);
    begin_pixels_of(box);
    const std::int64_t by = info_.scale_denom;
    box_ = {box.top / by, box.left / by, std::max<std::int64_t>(box.height / by, 1),
            std::max<std::int64_t>(box.width / by, 1)};
    return pixels();
  }

 private:
  void begin() {
    guarded(read_header);
    check_image_size(file_, info_.image_height, info_.image_width, least_bytes());
  }

  void begin_pixels_of(const PixelBox& box) {
    info_.scale_num = 1;
    info_.scale_denom = jpeg_divisor(box, enough_);
    guarded(begin_pixels);
  }

  RgbImage pixels() {
    image_ = {box_.height, box_.width,
              std::vector<std::uint8_t>(static_cast<std::size_t>(box_.height * box_.width * 3))};
    guarded(read_pixels);
    return std::move(image_);
  }

  void guarded(void (*step)(JpegDecoder&)) {
    if (setjmp(landing_) == 0) {
      step(*this);
      return;
    }
    TORCH_CHECK(false, "adaact: ", file_.path.string(), " cannot be decoded at byte ", offset(),
                ": ", message_);
  }

  static void read_header(JpegDecoder& self) {
    auto* info = &self.info_;
    jpeg_create_decompress(info);
    jpeg_mem_src(info, self.file_.bytes.data(), self.file_.bytes.size());
    jpeg_read_header(info, TRUE);
    // libjpeg goes from YCCK to CMYK, and from there no further.
    const bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    self.progress_.progress_monitor = check_scans;
    info->progress = &self.progress_;
  }

  /// Huffman coding spends a bit at least on every block of 64 samples. Arithmetic coding has no such
  /// bound, but for a photograph a quarter of it is little enough.
  std::int64_t least_bytes() const {
    std::int64_t blocks = 0;
    for (int i = 0; i < info_.num_components; ++i) {
      const auto& component = info_.comp_info[i];
      blocks = std::max(blocks, std::int64_t{component.width_in_blocks} *
                                    std::int64_t{component.height_in_blocks});
    }
    return blocks / (info_.arith_code != 0 ? 32 : 8);
  }

  /// libjpeg calls this once for every row of blocks and scan.
  static void check_scans(j_common_ptr info) {
    const auto* image = reinterpret_cast<j_decompress_ptr>(info);
    const auto pixels = std::int64_t{image->image_height} * image->image_width;
    const auto most = std::min(kMostScans, kMostScannedPixels / pixels);
    if (image->input_scan_number <= most) return;
    auto* self = static_cast<JpegDecoder*>(info->client_data);
    std::snprintf(self->message_, sizeof self->message_, "it has more than %ld scans", most);
    std::longjmp(self->landing_, 1);
  }

  static void begin_pixels(JpegDecoder& self) { jpeg_start_decompress(&self.info_); }

  static void read_pixels(JpegDecoder& self) {
    auto* info = &self.info_;
    const auto top = static_cast<JDIMENSION>(self.box_.top);
    const auto height = static_cast<JDIMENSION>(self.box_.height);
    const auto width = static_cast<JDIMENSION>(self.box_.width);
    const bool whole = height == info->output_height && width == info->output_width;
    const bool cmyk = info->out_color_space == JCS_CMYK;
    const auto before = leave_out_columns(self);
    const bool direct = width == info->output_width && !cmyk;
    const auto* decoded = (*info->mem->alloc_sarray)(
        reinterpret_cast<j_common_ptr>(info), JPOOL_IMAGE,
        info->output_width * static_cast<JDIMENSION>(info->output_components), 1);
    if (top > 0) jpeg_skip_scanlines(info, top);
    auto* row = self.image_.pixels.data();
    for (JDIMENSION y = 0; y < height; ++y, row += std::size_t{width} * 3) {
      JSAMPROW to = direct ? row : decoded[0];
      jpeg_read_scanlines(info, &to, 1);
      if (cmyk) {
        inks_to_rgb(to + std::size_t{before} * 4, width, info->saw_Adobe_marker != 0, row);
      } else if (!direct) {
        std::memcpy(row, to + std::size_t{before} * 3, std::size_t{width} * 3);
      }
    }
    if (whole) jpeg_finish_decompress(info);
  }

  /// Leaves columns beside the part undecoded, as far as they are whole blocks. Returns how many come before
  /// it still.
  static JDIMENSION leave_out_columns(JpegDecoder& self) {
    // Colours of a lower resolution are spread over as many pixels as this, and no more.
    constexpr JDIMENSION kNeighbours = 4;
    auto* info = &self.info_;
    const auto begin = static_cast<JDIMENSION>(self.box_.left);
    const auto end = begin + static_cast<JDIMENSION>(self.box_.width);
    JDIMENSION left = begin - std::min(begin, kNeighbours);
    JDIMENSION width = std::min(end + kNeighbours, info->output_width) - left;
    if (width < info->output_width) jpeg_crop_scanline(info, &left, &width);
    return begin - left;
  }

  /// Adobe's programs, which write nearly all of these files, store 255 for no ink.
  static void inks_to_rgb(const JSAMPLE* inks, JDIMENSION width, bool inverted, JSAMPLE* rgb) {
    for (JDIMENSION x = 0; x < width; ++x, inks += 4, rgb += 3) {
      const int flip = inverted ? 0 : 255;
      const int black = inks[3] ^ flip;
      for (int c = 0; c < 3; ++c) {
        rgb[c] = static_cast<JSAMPLE>(((inks[c] ^ flip) * black + 127) / 255);
      }
    }
  }

  static void on_error(j_common_ptr info) {
    auto* self = static_cast<JpegDecoder*>(info->client_data);
    info->err->format_message(info, self->message_);
    std::longjmp(self->landing_, 1);
  }

  static bool is_bad_arithmetic_code(int code) {
#if JPEG_LIB_VERSION >= 70 || defined(D_ARITH_CODING_SUPPORTED)
    return code == JWRN_ARITH_BAD_CODE;
#else
    return code < 0;  // never: this libjpeg refuses arithmetic codes
#endif
  }

  /// libjpeg fills the rest of a damaged image with grey and warns; here that is an error. Its other
  /// warnings are about superfluous bytes and the like, which sound images have too.
  static void on_warning(j_common_ptr info, int level) {
    if (level >= 0) return;
    const auto code = info->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
        code == JWRN_MUST_RESYNC || is_bad_arithmetic_code(code)) {
      on_error(info);
    }
  }

  std::size_t offset() const {
    const auto* source = info_.src;
    if (source == nullptr) return 0;
    const auto* begin = file_.bytes.data();
    const auto* end = begin + file_.bytes.size();
    // At the end of the file the source points to an end-of-image marker of its own.
    const bool inside = source->next_input_byte >= begin && source->next_input_byte <= end;
    return inside ? static_cast<std::size_t>(source->next_input_byte - begin) : file_.bytes.size();
  }

  const EncodedImage& file_;
  const std::int64_t enough_;  // pixels of the shorter side; 0: all
  PixelBox box_;               // of the output
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf landing_{};
  char message_[JMSG_LENGTH_MAX]{};
  RgbImage image_;
};

}  // namespace

unsigned jpeg_divisor(const PixelBox& part, std::int64_t enough) {
  const auto shorter = std::min(part.height, part.width);
  for (const unsigned by : {8U, 4U, 2U}) {
    if (enough > 0 && shorter / by >= enough) return by;
  }
  return 1;
}

RgbImage decode_jpeg(const EncodedImage& file, std::int64_t enough) {
  return JpegDecoder(file, enough).decode();
}

RgbImage decode_part_of_jpeg(const EncodedImage& file, const ChooseBox& choose,
                             std::int64_t enough) {
  return JpegDecoder(file, enough).decode_part(choose);
}

}  // namespace adaact
