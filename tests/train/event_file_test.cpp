#include "train/run/event_file.h"

#include <cstring>

#include <gtest/gtest.h>

namespace {

using adaact::crc32c;
using adaact::event_file_header;
using adaact::event_record;

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
}

TEST(EventFile, ARecordIsLengthChecksumBytesChecksum) {
  const auto record = event_record(1.5, 7, {{"loss", 0.25}});
  std::uint64_t length = 0;
  std::memcpy(&length, record.data(), 8);
  ASSERT_EQ(record.size(), 8 + 4 + length + 4);
  const auto masked = [](const std::string& bytes) {
    const auto crc = crc32c(bytes);
    return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
  };
  std::uint32_t of_length = 0;
  std::uint32_t of_bytes = 0;
  std::memcpy(&of_length, record.data() + 8, 4);
  std::memcpy(&of_bytes, record.data() + 12 + length, 4);
  EXPECT_EQ(of_length, masked(record.substr(0, 8)));
  EXPECT_EQ(of_bytes, masked(record.substr(12, length)));
}

TEST(EventFile, TheMessageIsTheOneOfTensorBoard) {
  // Fields by hand: 1 wall_time double, 2 step varint, 5 summary { 1 value { 1 tag, 2 float } }.
  const auto record = event_record(0.0, 300, {{"a", 1.0}});
  const std::string message = record.substr(12, record.size() - 16);
  const char expected[] =
      "\x09\0\0\0\0\0\0\0\0"  // wall_time 0
      "\x10\xAC\x02"          // step 300
      "\x2A\x0A"              // summary, 10 bytes
      "\x0A\x08"              // value, 8 bytes
      "\x0A\x01"
      "a"                  // tag
      "\x15\0\0\x80\x3F";  // 1.0f
  EXPECT_EQ(message, std::string(expected, sizeof(expected) - 1));
}

TEST(EventFile, TheFirstRecordNamesTheVersion) {
  EXPECT_NE(event_file_header(0.0).find("brain.Event:2"), std::string::npos);
}

}  // namespace
