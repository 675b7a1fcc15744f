#include "train/run/event_file.h"

#include <array>
#include <cstring>

namespace adaact {
namespace {

// Wire types of Protocol Buffers.
enum class Wire : std::uint32_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

class Message {
 public:
  void add_int(std::uint32_t field, std::int64_t value) {
    add_key(field, Wire::Varint);
    add_varint(static_cast<std::uint64_t>(value));
  }
  void add_double(std::uint32_t field, double value) {
    add_key(field, Wire::Fixed64);
    add_raw(value);
  }
  void add_float(std::uint32_t field, float value) {
    add_key(field, Wire::Fixed32);
    add_raw(value);
  }
  void add_bytes(std::uint32_t field, const std::string& value) {
    add_key(field, Wire::Bytes);
    add_varint(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void add_key(std::uint32_t field, Wire wire) {
    add_varint((std::uint64_t{field} << 3U) | static_cast<std::uint32_t>(wire));
  }
  void add_varint(std::uint64_t value) {
    while (value >= 0x80U) {
      bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
      value >>= 7U;
    }
    bytes_ += static_cast<char>(value);
  }
  template <typename Value>
  void add_raw(Value value) {
    std::array<char, sizeof(Value)> raw{};
    std::memcpy(raw.data(), &value, sizeof(Value));
    bytes_.append(raw.data(), raw.size());
  }

  std::string bytes_;
};

std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    auto remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1U) ^ ((remainder & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    table[byte] = remainder;
  }
  return table;
}

template <typename Value>
std::string raw_bytes(Value value) {
  std::string bytes(sizeof(Value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(Value));
  return bytes;
}

/// A checksum, rotated and shifted, because records may themselves hold checksums of records.
std::string masked_checksum(const std::string& bytes) {
  const auto crc = crc32c(bytes);
  return raw_bytes(((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U);
}

std::string record(const Message& event) {
  const auto length = raw_bytes(static_cast<std::uint64_t>(event.bytes().size()));
  return length + masked_checksum(length) + event.bytes() + masked_checksum(event.bytes());
}

}  // namespace

std::uint32_t crc32c(const std::string& bytes) {
  static const auto table = make_crc_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = (crc >> 8U) ^ table[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFFU];
  }
  return ~crc;
}

std::string event_file_header(double wall_time) {
  Message event;
  event.add_double(1, wall_time);
  event.add_bytes(3, "brain.Event:2");
  return record(event);
}

std::string event_record(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const auto& scalar : scalars) {
    Message value;
    value.add_bytes(1, scalar.tag);
    value.add_float(2, static_cast<float>(scalar.value));
    summary.add_bytes(1, value.bytes());
  }
  Message event;
  event.add_double(1, wall_time);
  event.add_int(2, step);
  event.add_bytes(5, summary.bytes());
  return record(event);
}

}  // namespace adaact
