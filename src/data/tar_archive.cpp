#include "data/tar_archive.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <string_view>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

/// The place of one field, such as the name or the size, in the header of an entry.
struct TarField {
  std::size_t begin;
  std::size_t length;
};

constexpr TarField kNameField{0, 100};
constexpr TarField kModeField{100, 8};
constexpr TarField kUserField{108, 8};
constexpr TarField kGroupField{116, 8};
constexpr TarField kSizeField{124, 12};
constexpr TarField kTimeField{136, 12};
constexpr TarField kChecksumField{148, 8};
constexpr TarField kKindField{156, 1};
constexpr TarField kMagicField{257, 8};
constexpr TarField kPrefixField{345, 155};  // of the name

std::string_view field_of(const TarBlock& block, const TarField& field) {
  return {block.data() + field.begin, field.length};
}

/// The text of a field, which ends at its first zero.
std::string text_of(const TarBlock& block, const TarField& field) {
  const auto text = field_of(block, field);
  return std::string(text.substr(0, text.find('\0')));
}

void put_text(TarBlock& block, const TarField& field, std::string_view text) {
  std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(field.begin));
}

/// Writes a number in octal digits, with a zero behind them.
void put_number(TarBlock& block, const TarField& field, std::int64_t number) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%0*llo", static_cast<int>(field.length) - 1,
                static_cast<unsigned long long>(number));
  put_text(block, field, digits.data());
}

std::int64_t number_in(const TarBlock& block, const TarField& field, const char* what) {
  auto text = field_of(block, field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_first_of(std::string_view(" \0", 2)));
  std::int64_t number = 0;
  for (const char digit : text) {
    TORCH_CHECK(digit >= '0' && digit <= '7', "its ", what, " is no octal number");
    number = number * 8 + (digit - '0');  // of twelve digits at most
  }
  TORCH_CHECK(!text.empty(), "its ", what, " is missing");
  return number;
}

/// The sum of all bytes of a header, with blanks in the place of the sum itself.
std::int64_t sum_of(const TarBlock& block) {
  const auto sum = [](std::string_view bytes) {
    return std::accumulate(
        bytes.begin(), bytes.end(), std::int64_t{0},
        [](std::int64_t so_far, char byte) { return so_far + static_cast<unsigned char>(byte); });
  };
  const auto own = field_of(block, kChecksumField);
  return sum({block.data(), block.size()}) - sum(own) + static_cast<std::int64_t>(own.size()) * ' ';
}

TarEntry::Kind kind_of(char letter) {
  switch (letter) {
    case '0':
    case '\0':
    case '7':  // laid out in one piece
      return TarEntry::Kind::File;
    case 'x':
    case 'g':
      return TarEntry::Kind::AboutNext;
    case 'L':
      TORCH_CHECK(false, "it is a name in GNU's form, expected names of at most 100 bytes");
    default:
      return TarEntry::Kind::Other;
  }
}

}  // namespace

TarBlock tar_header(const std::string& name, std::int64_t bytes) {
  TORCH_CHECK(name.size() < kNameField.length, "adaact: the name ", name, " has ", name.size(),
              " bytes, expected fewer than ", kNameField.length);
  TORCH_CHECK(bytes >= 0 && bytes < std::int64_t{1} << 33, "adaact: ", name, " has ", bytes,
              " bytes, expected 0 to 8 GB");
  TarBlock block{};
  put_text(block, kNameField, name);
  put_number(block, kModeField, 0644);
  put_number(block, kUserField, 0);
  put_number(block, kGroupField, 0);
  put_number(block, kSizeField, bytes);
  put_number(block, kTimeField, 0);
  put_text(block, kKindField, "0");
  put_text(block, kMagicField, std::string_view("ustar\00000", 8));
  std::array<char, 8> sum{};  // six digits, a zero, a blank
  std::snprintf(sum.data(), sum.size(), "%06llo", static_cast<unsigned long long>(sum_of(block)));
  sum[7] = ' ';
  put_text(block, kChecksumField, {sum.data(), sum.size()});
  return block;
}

TarEntry parse_tar_header(const TarBlock& block) {
  const auto sum = number_in(block, kChecksumField, "checksum");
  TORCH_CHECK(sum == sum_of(block), "its checksum is ", sum, ", expected ", sum_of(block));
  TarEntry entry;
  entry.name = text_of(block, kNameField);
  const bool has_prefix =
      field_of(block, kMagicField).substr(0, 6) == std::string_view("ustar\0", 6);
  const auto prefix = has_prefix ? text_of(block, kPrefixField) : "";
  if (!prefix.empty()) entry.name.insert(0, prefix + "/");
  TORCH_CHECK((field_of(block, kSizeField)[0] & '\x80') == 0, "it has more than 8 GB");
  entry.bytes = number_in(block, kSizeField, "size");
  entry.kind = kind_of(field_of(block, kKindField)[0]);
  return entry;
}

bool is_end_of_tar(const TarBlock& block) {
  return std::all_of(block.begin(), block.end(), [](char byte) { return byte == '\0'; });
}

}  // namespace adaact
