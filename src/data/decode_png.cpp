#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>

#include <c10/util/Exception.h>
#include <png.h>

#include "data/decode_image.h"
#include "data/deflate_limit.h"

namespace adaact {
namespace {

/// libpng leaves on an error by longjmp, which runs no destructors. So it is only called from the
/// static steps below, which have nothing to destroy, and every jump lands in guarded().
class PngDecoder {
 public:
  explicit PngDecoder(const EncodedImage& file) : file_(file) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  RgbImage decode() {
    guarded(read_header);
    image_ = allocate_image(file_, height_, width_,
                            std::int64_t{height_} * row_bits_ / 8 / kBestDeflateRatio);
    for (png_uint_32 y = 0; y < height_; ++y) {
      rows_.push_back(image_.pixels.data() + std::size_t{y} * width_ * 3);
    }
    guarded(read_pixels);
    return std::move(image_);
  }

 private:
  void guarded(void (*step)(PngDecoder&)) {
    if (setjmp(landing_) == 0) {
      step(*this);
      return;
    }
    TORCH_CHECK(false, "adaact: ", file_.path.string(), " cannot be decoded at byte ", offset_,
                ": ", message_);
  }

  static void read_header(PngDecoder& self) {
    self.png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &self, on_error, on_warning);
    if (self.png_ == nullptr) self.leave("libpng cannot start");
    self.info_ = png_create_info_struct(self.png_);
    if (self.info_ == nullptr) self.leave("libpng cannot start");
    png_set_read_fn(self.png_, &self, on_read);
    // Of texts, profiles and the like nothing is needed. libpng would unpack them, up to 8 MB for each
    // chunk and a thousand chunks.
    png_set_keep_unknown_chunks(self.png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(self.png_, self.info_);
    self.width_ = png_get_image_width(self.png_, self.info_);
    self.height_ = png_get_image_height(self.png_, self.info_);
    self.row_bits_ = std::int64_t{self.width_} * png_get_bit_depth(self.png_, self.info_) *
                     png_get_channels(self.png_, self.info_);
    png_set_scale_16(self.png_);
    png_set_palette_to_rgb(self.png_);
    png_set_gray_to_rgb(self.png_);  // also spreads 1, 2 and 4 bits over 8
    png_set_strip_alpha(self.png_);
    png_set_interlace_handling(self.png_);
    png_read_update_info(self.png_, self.info_);
    if (png_get_rowbytes(self.png_, self.info_) != std::size_t{self.width_} * 3) {
      self.leave("its pixels cannot be made 8-bit RGB");
    }
  }

  static void read_pixels(PngDecoder& self) {
    png_read_image(self.png_, self.rows_.data());
    png_read_end(self.png_, nullptr);
  }

  [[noreturn]] void leave(const char* message) {
    std::strncpy(message_, message, sizeof message_ - 1);
    std::longjmp(landing_, 1);
  }

  static void on_error(png_structp png, png_const_charp message) {
    static_cast<PngDecoder*>(png_get_error_ptr(png))->leave(message);
  }

  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}

  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self->file_.bytes.size() - self->offset_) {
      self->offset_ = self->file_.bytes.size();
      self->leave("the file ends early");
    }
    std::memcpy(to, self->file_.bytes.data() + self->offset_, count);
    self->offset_ += count;
  }

  const EncodedImage& file_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  png_uint_32 width_ = 0;
  png_uint_32 height_ = 0;
  std::int64_t row_bits_ = 0;  // in the file
  std::size_t offset_ = 0;
  std::jmp_buf landing_{};
  char message_[200]{};
  RgbImage image_;
  std::vector<png_bytep> rows_;
};

}  // namespace

RgbImage decode_png(const EncodedImage& file) { return PngDecoder(file).decode(); }

}  // namespace adaact
