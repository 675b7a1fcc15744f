#include "io/file_descriptor.h"

#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/odd_files.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::open_regular_file;
using adaact::read_file;
namespace fs = std::filesystem;

class RegularFile : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  static std::string error(const fs::path& path) {
    return error_of([&] { read_file(path); });
  }

  TemporaryFolder folder_;
};

TEST_F(RegularFile, IsReadWhole) {
  const std::string bytes = std::string(100'000, 'x') + '\0' + "end";
  std::ofstream(at("file"), std::ios::binary) << bytes;
  EXPECT_EQ(read_file(at("file")), bytes);
  fs::create_symlink(at("file"), at("link"));
  EXPECT_EQ(read_file(at("link")), bytes);
  std::ofstream(at("empty")).close();
  EXPECT_EQ(read_file(at("empty")), "");
}

TEST_F(RegularFile, MayHaveMoreThanItsSizeSays) {
  EXPECT_EQ(fs::file_size("/proc/self/status"), 0U);
  EXPECT_TRUE(contains(read_file("/proc/self/status"), "VmPeak"));
}

TEST_F(RegularFile, EverythingElseIsNamedAndRefused) {
  EXPECT_TRUE(contains(error(make_pipe(at("pipe"))), at("pipe").string() + " is a pipe"));
  fs::create_symlink(at("pipe"), at("link"));
  EXPECT_TRUE(contains(error(at("link")), at("link").string() + " is a pipe"));
  EXPECT_TRUE(contains(error(folder_.path()), folder_.path().string() + " is a folder"));
  EXPECT_TRUE(contains(error("/dev/zero"), "/dev/zero is a device, expected a regular file"));
  EXPECT_TRUE(contains(error(at("none")), at("none").string() + " cannot be opened: No such file"));
}

TEST_F(RegularFile, IsWrittenOnlyIfItIsOne) {
  const auto open = [&](const fs::path& path) {
    return error_of([&] { open_regular_file(path, O_WRONLY | O_CREAT | O_APPEND); });
  };
  EXPECT_TRUE(contains(open(make_pipe(at("pipe"))), "pipe is a pipe"));
  EXPECT_TRUE(contains(open(folder_.path()), "is a folder"));
  EXPECT_TRUE(contains(open("/dev/null"), "/dev/null is a device"));
}

}  // namespace
