#include "io/torch_archive.h"

#include <sstream>

#include <adaact/io/safetensors.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "support/errors.h"

namespace {

using adaact::advice_for_torch_archive;
using adaact::testing::contains;
using adaact::testing::error_of;

std::string error_of_reading(const std::string& bytes, const std::string& source) {
  return error_of([&] {
    adaact::TensorFile::from_bytes(bytes, adaact::TensorFile::Checksum::IfPresent, source);
  });
}

TEST(TorchArchive, APickleNamesTheLineThatConvertsIt) {
  // As torch.save writes it: a zip archive with a pickle.
  const auto message =
      error_of_reading("PK\x03\x04 ... archive/data.pkl ... archive/version", "runs/x.pt");
  EXPECT_TRUE(contains(message, "runs/x.pt is no safetensors file but a pickle of PyTorch's"));
  EXPECT_TRUE(
      contains(message, "python3 -c \"import torch; from safetensors.torch import save_file"));
  EXPECT_TRUE(contains(message, "torch.load('runs/x.pt', map_location='cpu', weights_only=True)"));
  EXPECT_TRUE(contains(message, "'runs/x.safetensors')\""));
}

TEST(TorchArchive, APickleOfOldIsToldByItsMagicNumber) {
  const auto message =
      error_of_reading("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "x.pth");
  EXPECT_TRUE(contains(message, "a pickle of PyTorch's"));
  EXPECT_TRUE(contains(message, "'x.safetensors'"));
}

TEST(TorchArchive, AScriptIsLoadedAsOne) {
  torch::jit::Module script("M");
  script.register_parameter("weight", torch::ones({2}), false);
  std::ostringstream archive;
  script.save(archive);
  const auto message = error_of_reading(archive.str(), "model.pt");
  EXPECT_TRUE(contains(message, "a TorchScript archive"));
  EXPECT_TRUE(contains(message, "torch.jit.load('model.pt', map_location='cpu').state_dict()"));
}

TEST(TorchArchive, NamesAreQuotedForPythonAndTheShell) {
  const auto advice = advice_for_torch_archive("PK\x03\x04/data.pkl", "it's $5.pt");
  EXPECT_TRUE(contains(advice, R"(torch.load('it\'s \$5.pt')"));
}

TEST(TorchArchive, OtherFilesAreNoneOfIt) {
  EXPECT_EQ(advice_for_torch_archive("PK\x03\x04 weights.npy", "x.npz"), "a zip archive");
  EXPECT_EQ(advice_for_torch_archive(adaact::TensorFile().to_bytes(), "x"), "");
  EXPECT_EQ(advice_for_torch_archive("", "x"), "");
}

}  // namespace
