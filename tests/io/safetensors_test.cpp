#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <adaact/io/safetensors.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "io/checksum.h"
#include "support/errors.h"
#include "support/odd_files.h"
#include "support/peak_memory.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::TensorFile;
using Checksum = TensorFile::Checksum;

TensorFile example() {
  TensorFile file;
  file.tensors["weight"] = torch::arange(6, torch::kFloat32).view({2, 3});
  file.tensors["count"] = torch::tensor(7, torch::kInt64);
  file.metadata["note"] = "a \"quoted\" line";
  return file;
}

std::string file_with_header(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

/// A file as another program writes it: spaces in the header, no checksum.
std::string foreign_file() {
  const float data[] = {1.5F, -2.0F};
  return file_with_header(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
                          std::string(reinterpret_cast<const char*>(data), sizeof(data)));
}

std::string refusal(const std::string& bytes) {
  return error_of([&] { TensorFile::from_bytes(bytes, Checksum::IfPresent, "theirs"); });
}

TEST(Safetensors, EveryDtypeAndShapeSurvivesARoundTrip) {
  TensorFile file;
  for (const auto dtype :
       {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
        torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool}) {
    file.tensors[c10::toString(dtype)] = torch::randn({3, 4}).mul(10).abs().to(dtype);
  }
  file.tensors["scalar"] = torch::tensor(2.5);
  file.tensors["empty"] = torch::zeros({0, 3});
  file.tensors["strided"] = torch::randn({4, 5}).t();
  const auto read = TensorFile::from_bytes(file.to_bytes(), Checksum::Required, "test");
  ASSERT_EQ(read.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    EXPECT_EQ(read.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(bit_identical(read.at(name), tensor)) << name;
  }
}

TEST(Safetensors, MetadataSurvivesAndEqualContentGivesEqualBytes) {
  const auto bytes = example().to_bytes();
  EXPECT_EQ(bytes, example().to_bytes());
  EXPECT_EQ(TensorFile::from_bytes(bytes, Checksum::Required, "test").metadata, example().metadata);
}

TEST(Safetensors, DataStartsAlignedAsTheFormatAsks) {
  const auto bytes = example().to_bytes();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
}

TEST(Safetensors, EveryAlteredByteIsFound) {
  const auto bytes = example().to_bytes();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x20, 0x80}) {
      auto altered = bytes;
      altered[at] = static_cast<char>(altered[at] ^ flip);
      EXPECT_ANY_THROW(TensorFile::from_bytes(altered, Checksum::Required, "test"))
          << "byte " << at << " ^ " << flip;
    }
  }
}

TEST(Safetensors, EveryTruncationIsFound) {
  const auto bytes = example().to_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_ANY_THROW(TensorFile::from_bytes(bytes.substr(0, size), Checksum::Required, "test"));
  }
  EXPECT_ANY_THROW(TensorFile::from_bytes(bytes + '\0', Checksum::Required, "test"));
}

TEST(Safetensors, ForeignFileIsReadUnlessAChecksumIsRequired) {
  const auto file = TensorFile::from_bytes(foreign_file(), Checksum::IfPresent, "theirs");
  EXPECT_TRUE(torch::equal(file.at("a"), torch::tensor({1.5F, -2.0F})));
  EXPECT_TRUE(contains(
      error_of([] { TensorFile::from_bytes(foreign_file(), Checksum::Required, "theirs"); }),
      "theirs carries no checksum"));
}

TEST(Safetensors, OffsetsThatLieAreRefused) {
  auto bytes = foreign_file();
  const auto replace = [&](const std::string& from, const std::string& to) {
    auto changed = bytes;
    changed.replace(changed.find(from), from.size(), to);
    return error_of([&] { TensorFile::from_bytes(changed, Checksum::IfPresent, "lies"); });
  };
  EXPECT_TRUE(contains(replace("[0, 8]", "[0, 9]"), "'a'"));
  EXPECT_TRUE(contains(replace("[0, 8]", "[8, 0]"), "'a'"));
  EXPECT_TRUE(contains(replace("[2]", "[3]"), "'a'"));
  EXPECT_TRUE(contains(replace("[0, 8]", "[-8,0]"), "'a'"));
  EXPECT_TRUE(contains(replace("F32", "F33"), "unknown dtype 'F33'"));
  const std::string beyond = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,1e300]}})";
  EXPECT_TRUE(contains(refusal(file_with_header(beyond, "12345678")),
                       "theirs: an offset of 'a' is 1e+300, expected a whole number"));
}

TEST(Safetensors, HeadersThatAreTooDeepAreRefused) {
  EXPECT_TRUE(contains(refusal(file_with_header(deep_json())),
                       "theirs: the header is no JSON: it is nested deeper than 100 levels"));
  EXPECT_TRUE(contains(refusal(file_with_header("{\"__metadata__\":" + deep_json() + "}")),
                       "theirs: the header is no JSON: it is nested deeper than 100 levels"));
  const std::string twice =
      R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32"}})";
  EXPECT_TRUE(contains(refusal(file_with_header(twice)), "it has the field 'a' twice"));
}

TEST(Safetensors, ShapesThatNoTensorHasAreRefused) {
  const auto shaped = [](const std::string& shape) {
    return file_with_header(R"({"a":{"dtype":"F32","shape":)" + shape +
                            R"(,"data_offsets":[0,0]}})");
  };
  const auto file = TensorFile::from_bytes(shaped("[0,512,3]"), Checksum::IfPresent, "theirs");
  EXPECT_EQ(file.at("a").sizes(), (std::vector<std::int64_t>{0, 512, 3}));
  // The strides of an empty tensor are products of its other sizes.
  EXPECT_TRUE(contains(refusal(shaped("[0,4611686018427387904,4611686018427387904]")),
                       "tensor 'a' of shape [0, 4611686018427387904"));
  EXPECT_TRUE(contains(refusal(shaped("[-1]")), "tensor 'a' of shape [-1]"));
  EXPECT_TRUE(contains(refusal(shaped("[1.5]")), "a size of 'a' is 1.5, expected a whole number"));
  std::string many = "[0";
  for (int i = 0; i < 1000; ++i) many += ",1";
  EXPECT_TRUE(
      contains(refusal(shaped(many + "]")), "tensor 'a' has 1001 dimensions, expected at most 64"));
}

/// Each of the tensors reaches to the end of the data: copied one by one they would take 50 GB.
TEST(Safetensors, TensorsThatOverlapAreFoundBeforeTheyAreCopied) {
  constexpr int kTensors = 50'000;
  constexpr int kBytes = 1'000'000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i) {
    const auto size = std::to_string(kBytes - i);
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[)" + size +
              R"(],"data_offsets":[)" + std::to_string(i) + "," + std::to_string(kBytes) + "]}";
  }
  const auto bytes = file_with_header(header + "}", std::string(kBytes, 'x'));
  std::string message;
  EXPECT_LT(peak_memory_of([&] { message = refusal(bytes); }), 200'000'000);
  EXPECT_TRUE(contains(message, "theirs: the data has a hole or an overlap at byte 1000000"));
}

TEST(Safetensors, APipeIsNotReadFrom) {
  const TemporaryFolder folder;
  const auto pipe = make_pipe(folder.path() / "model.safetensors");
  EXPECT_TRUE(contains(error_of([&] { TensorFile::read(pipe); }), "model.safetensors is a pipe"));
}

TEST(Safetensors, UnknownNameListsTheKnownOnes) {
  const auto file = example();
  EXPECT_TRUE(contains(error_of([&] { file.at("wight"); }), "count, weight"));
}

TEST(Safetensors, MissingFileIsNamed) {
  EXPECT_TRUE(contains(error_of([] { TensorFile::read("no/such/file"); }), "no/such/file"));
}

TEST(Safetensors, FailedWriteLeavesThePreviousFileAndNothingElse) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.safetensors";
  example().write(path);
  auto impossible = example();
  impossible.tensors["complex"] = torch::zeros({2}, torch::kComplexFloat);
  EXPECT_ANY_THROW(impossible.write(path));
  EXPECT_EQ(TensorFile::read(path, Checksum::Required).metadata, example().metadata);
  EXPECT_TRUE(
      contains(error_of([&] { example().write(folder.path() / "absent" / "file"); }), "absent"));
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(Safetensors, FullDiskIsAnErrorThatNamesTheFile) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  std::ofstream full("/dev/full", std::ios::binary);
  auto large = example();
  large.tensors["large"] = torch::zeros({1 << 20});
  EXPECT_TRUE(contains(error_of([&] { large.write(full); }), "failed"));
}

TEST(Crc64, OfTheCheckStringIsTheXzValue) {
  adaact::Crc64 crc;
  crc.update("12345");
  crc.update("6789");
  EXPECT_EQ(crc.hex(), "995dc9bbdf1939fa");
}

}  // namespace
