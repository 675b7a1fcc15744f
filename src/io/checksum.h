#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace adaact {

/// CRC-64 as in the xz format (reflected ECMA-182 polynomial): finds every change confined to eight
/// neighbouring bytes, and any other with probability 1 − 2⁻⁶⁴.
class Crc64 {
 public:
  void update(std::string_view bytes);
  std::uint64_t value() const { return ~state_; }
  /// Sixteen hexadecimal digits.
  std::string hex() const;

 private:
  std::uint64_t state_ = ~std::uint64_t{0};
};

}  // namespace adaact
