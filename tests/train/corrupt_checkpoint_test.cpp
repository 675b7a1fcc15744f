// A checkpoint with a valid checksum and nonsense inside: the run says what is wrong, and nothing that was
// saved changes.

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <adaact/io/safetensors.h>
#include <adaact/train/training_run.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::RunConfig;
using adaact::RunResult;
using adaact::RunSettings;
using adaact::StepMetrics;
using adaact::TensorFile;
using adaact::TrainingCallback;
using adaact::TrainingRun;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;
using nlohmann::json;
namespace fs = std::filesystem;

/// Six steps an epoch, the last one partial, and stopped in the second.
class CorruptCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    class Stop : public TrainingCallback {
      void on_step(const adaact::Trainer& /*trainer*/, const StepMetrics& metrics) override {
        if (metrics.step == 8) std::raise(SIGTERM);
      }
    } stop;
    RunSettings settings;
    settings.activation_variances = true;
    TrainingRun(config(), run_, settings).run(stop);
    good_ = TensorFile::read(checkpoint_, TensorFile::Checksum::Required);
  }

  static RunConfig config() {
    RunConfig config;
    config.model = "lenet5";
    config.dataset = "synthetic";
    config.limit_train = 90;
    config.limit_test = 40;
    config.batch_size = 16;
    config.epochs = 3;
    config.threads = 1;
    return config;
  }

  RunResult resume() const {
    RunSettings settings;
    settings.resume = true;
    settings.activation_variances = true;
    TrainingCallback silent;
    return TrainingRun(config(), run_, settings).run(silent);
  }

  void expect_refused(const TensorFile& bad, const std::string& part) const {
    bad.write(checkpoint_);
    const auto bytes = bytes_of(checkpoint_);
    const auto metrics = bytes_of(run_ / "metrics.jsonl");
    const auto error = error_of([&] { resume(); });
    EXPECT_TRUE(contains(error, "checkpoint.8.safetensors"));
    EXPECT_TRUE(contains(error, part));
    EXPECT_EQ(bytes_of(checkpoint_), bytes);
    EXPECT_EQ(bytes_of(run_ / "metrics.jsonl"), metrics);
  }

  TensorFile with_field(const std::string& field, const json& value) const {
    auto file = good_;
    auto fields = json::parse(file.metadata.at("run"));
    fields[field] = value;
    file.metadata["run"] = fields.dump();
    return file;
  }

  TemporaryFolder folder_;
  const fs::path run_ = folder_.path() / "run";
  const fs::path checkpoint_ = run_ / "checkpoint.8.safetensors";
  TensorFile good_;
};

TEST_F(CorruptCheckpoint, NumbersThatTheRunCannotHaveAreRefused) {
  struct Altered {
    const char* field;
    json value;
    const char* expected;
  };
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const auto& [field, value, expected] : std::vector<Altered>{
           {"step", -1, "the field 'step' is -1, expected an integer ≥ 0"},
           {"step", 7, "the field 'step' is 7, expected 8 after 2 batches of epoch 1"},
           {"step", huge, "the field 'step' is 4611686018427387904, expected 8"},
           {"step", 1.5, "the field 'step' is 1.5, expected an integer ≥ 0"},
           {"step", 1e300, "the field 'step' is 1e+300, expected an integer ≥ 0"},
           {"step", ~std::uint64_t{0}, "the field 'step' is 18446744073709551615, expected"},
           {"step", "eight", "the field 'step' is \"eight\", expected an integer ≥ 0"},
           {"step", json(), "the field 'step' is null, expected an integer ≥ 0"},
           {"epoch", -1, "the field 'epoch' is -1, expected an integer ≥ 0"},
           {"epoch", 4, "the field 'epoch' is 4, expected 0 to 3, the epochs of the run"},
           {"epoch", 3, "the field 'batch' is 2, expected 0 to 0"},
           {"epoch", huge, "the field 'epoch' is 4611686018427387904, expected 0 to 3"},
           {"batch", -2, "the field 'batch' is -2, expected an integer ≥ 0"},
           {"batch", 7, "the field 'batch' is 7, expected 0 to 6, the batches"},
           {"batch", huge, "the field 'batch' is 4611686018427387904, expected 0 to 6"},
           {"batch", 3, "the field 'step' is 8, expected 9 after 3 batches of epoch 1"},
           {"images", 31, "the field 'images' is 31, expected 32 after 2 batches of epoch 1"},
           {"correct", 33, "the field 'correct' is 33, expected 0 to 32, the images so far"},
           {"seconds", -1.0, "the field 'seconds' is -1, expected a number ≥ 0"},
           {"seconds", json(), "the field 'seconds' is nan, expected a number ≥ 0"},
           {"epoch_seconds", "long", "the field 'epoch_seconds' is \"long\", expected a number"},
           {"loss_sum", json::array(), "the field 'loss_sum' is [], expected a number"},
           {"second_moments", 3, "the field 'second_moments' is 3, expected a list"},
           {"second_moments", {{"a", 1, 2}}, "the field 'second_moments' is [[\"a\",1,2]]"},
           {"activation_totals", {"x"}, "the field 'activation_totals' is [\"x\"], expected"},
           {"activation_totals",
            {1.0, 2.0},
            "the field 'activation_totals' is 2 numbers, expected none or 40, a row for each "
            "layer"},
           {"metrics_bytes", -1, "the field 'metrics_bytes' is -1, expected an integer ≥ 0"},
           {"event_bytes", -1, "the field 'event_bytes' is -1, expected an integer ≥ 0"},
           {"data", 5, "the field 'data' is 5, expected a text"}}) {
    SCOPED_TRACE(field);
    expect_refused(with_field(field, value), expected);
  }
}

TEST_F(CorruptCheckpoint, AMissingFieldIsNamed) {
  auto bad = good_;
  auto fields = json::parse(bad.metadata.at("run"));
  fields.erase("epoch");
  bad.metadata["run"] = fields.dump();
  expect_refused(bad, "lacks the field 'epoch'");
  bad.metadata["run"] = "[1, 2";
  expect_refused(bad, "the field run is no JSON");
  bad.metadata["run"] = "[1, 2]";
  expect_refused(bad, "'run' is no JSON object");
}

TEST_F(CorruptCheckpoint, StatesOfOtherShapesAreRefused) {
  const auto alter = [&](const std::string& name, const torch::Tensor& value) {
    auto bad = good_;
    EXPECT_EQ(bad.tensors.count(name), 1U) << name;
    bad.tensors[name] = value;
    return bad;
  };
  expect_refused(alter("model/conv1.weight", torch::zeros({2, 2})),
                 "'conv1.weight' is Float [2, 2]");
  expect_refused(alter("optimizer/exp_avg/conv1.weight", torch::zeros({2, 2})),
                 "entry 'exp_avg' of 'conv1.weight' is Float of shape [2, 2], expected");
  expect_refused(alter("optimizer/second_moment/conv1.weight",
                       good_.tensors.at("optimizer/second_moment/conv1.weight") * -1.0),
                 "entry 'second_moment' of 'conv1.weight' is -");
  expect_refused(alter("generator", torch::zeros({3}, torch::kUInt8)),
                 "'generator', Byte [3], is no state of a random generator");
  expect_refused(alter("generator", torch::zeros_like(good_.tensors.at("generator"))),
                 "is no state of a random generator");
  auto bad = good_;
  bad.tensors["model/surprise"] = torch::zeros({1});
  expect_refused(bad, "the model has no 'surprise'");
  bad = good_;
  bad.tensors.erase("model/conv1.weight");
  expect_refused(bad, "lacks 'model/conv1.weight'");
  bad = good_;
  bad.tensors.erase("generator");
  expect_refused(bad, "lacks 'generator'");
}

TEST_F(CorruptCheckpoint, OneUnderTheNameOfAnotherIsRefused) {
  fs::rename(checkpoint_, run_ / "checkpoint.9.safetensors");
  EXPECT_TRUE(contains(error_of([&] { resume(); }),
                       "checkpoint.9.safetensors: the field 'step' is 8, expected 9, as the file"));
}

TEST_F(CorruptCheckpoint, NamesThatNoRunGivesAreNoCheckpoints) {
  for (const char* name : {"-9", "009", "9e3", "99999999999999999999"}) {
    fs::copy_file(checkpoint_, run_ / (std::string("checkpoint.") + name + ".safetensors"));
  }
  EXPECT_EQ(resume().status, RunResult::Status::Finished);
}

TEST_F(CorruptCheckpoint, PutRightItGoesOn) {
  expect_refused(with_field("step", -1), "'step' is -1");
  good_.write(checkpoint_);
  EXPECT_EQ(resume().status, RunResult::Status::Finished);
}

}  // namespace
