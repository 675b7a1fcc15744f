#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <utility>

#include <c10/util/Exception.h>
#include <jerror.h>
#include <jpeglib.h>

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
    guarded(read_header);
    check_image_size(file_, info_.image_height, info_.image_width, least_bytes());
    info_.scale_num = 1;
    info_.scale_denom = divisor();
    guarded(begin_pixels);
    image_ = {info_.output_height, info_.output_width,
              std::vector<std::uint8_t>(std::size_t{info_.output_height} * info_.output_width * 3)};
    guarded(read_pixels);
    return std::move(image_);
  }

 private:
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

  /// 1, or the largest by which libjpeg can divide the size and leave enough of it.
  unsigned divisor() const {
    const auto shorter = std::int64_t{std::min(info_.image_height, info_.image_width)};
    for (const unsigned by : {8U, 4U, 2U}) {
      if (enough_ > 0 && shorter / by >= enough_) return by;
    }
    return 1;
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
    const auto row_bytes = std::size_t{info->output_width} * 3;
    const bool cmyk = info->out_color_space == JCS_CMYK;
    JSAMPARRAY inks = nullptr;
    if (cmyk) {
      inks = (*info->mem->alloc_sarray)(reinterpret_cast<j_common_ptr>(info), JPOOL_IMAGE,
                                        info->output_width * 4, 1);
    }
    while (info->output_scanline < info->output_height) {
      JSAMPROW row = self.image_.pixels.data() + info->output_scanline * row_bytes;
      jpeg_read_scanlines(info, cmyk ? inks : &row, 1);
      if (cmyk) inks_to_rgb(inks[0], info->output_width, info->saw_Adobe_marker != 0, row);
    }
    jpeg_finish_decompress(info);
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

  /// libjpeg fills the rest of a damaged image with grey and warns; here that is an error. Its other
  /// warnings are about superfluous bytes and the like, which sound images have too.
  static void on_warning(j_common_ptr info, int level) {
    if (level >= 0) return;
    const auto code = info->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
        code == JWRN_MUST_RESYNC) {
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
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf landing_{};
  char message_[JMSG_LENGTH_MAX]{};
  RgbImage image_;
};

}  // namespace

RgbImage decode_jpeg(const EncodedImage& file, std::int64_t enough) {
  return JpegDecoder(file, enough).decode();
}

}  // namespace adaact
