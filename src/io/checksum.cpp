#include "io/checksum.h"

#include <array>

namespace adaact {
namespace {

constexpr std::uint64_t kPolynomial = 0xC96C5795D7870F42ULL;

constexpr std::array<std::uint64_t, 256> make_table() {
  std::array<std::uint64_t, 256> table{};
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    std::uint64_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? (value >> 1) ^ kPolynomial : value >> 1;
    }
    table[byte] = value;
  }
  return table;
}

constexpr auto kTable = make_table();

}  // namespace

void Crc64::update(std::string_view bytes) {
  for (const char byte : bytes) {
    state_ = kTable[(state_ ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (state_ >> 8);
  }
}

std::string Crc64::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(value() >> shift) & 0xF];
  return text;
}

}  // namespace adaact
