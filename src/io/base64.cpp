#include "io/base64.h"

#include <cstddef>
#include <cstdint>

namespace adaact {
namespace {

constexpr std::string_view kBase64Letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;  // three bytes are four letters
    for (std::size_t i = at; i < at + 3; ++i) {
      group = group << 8U | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    }
    for (std::size_t letter = 0; letter < 4; ++letter) {
      const bool is_filling = at + letter > bytes.size();
      text += is_filling ? '=' : kBase64Letters[group >> (18U - 6U * letter) & 63U];
    }
  }
  return text;
}

bool is_base64(std::string_view text) {
  if (text.size() % 4 != 0) return false;
  for (int filling = 0; filling < 2 && !text.empty() && text.back() == '='; ++filling) {
    text.remove_suffix(1);
  }
  return text.find_first_not_of(kBase64Letters) == std::string_view::npos;
}

}  // namespace adaact
