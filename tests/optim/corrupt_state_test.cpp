// A state that is whole and still nonsense: one thing in what an optimizer exported is altered, and the
// optimizer must say what it is and stay as it was.

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::OptimizerState;
using adaact::testing::contains;
using adaact::testing::copy_values;
using adaact::testing::cross_entropy;
using adaact::testing::error_of;
using adaact::testing::expect_bit_identical;
using adaact::testing::image_batch;
using adaact::testing::SmallNet;
using adaact::testing::snapshot;

constexpr std::int64_t kTooMany = std::int64_t{1} << 60;

struct Case {
  const char* title;
  const char* optimizer;
  const char* options = "{}";

  friend std::ostream& operator<<(std::ostream& out, const Case& each) { return out << each.title; }
};

const Case kCases[] = {{"adaact", "adaact"},
                       {"adaactFull", "adaact", R"({"covariance": "full"})"},
                       {"adan", "adan"},
                       {"lamb", "lamb"},
                       {"sgd", "sgd"},
                       {"adam", "adam"},
                       {"adamLargest", "adam", R"({"amsgrad": true})"},
                       {"adamw", "adamw"},
                       {"foof", "foof"},
                       {"kfac", "kfac"},
                       {"kfacEigen", "kfac", R"({"inverse": "eigen"})"},
                       {"kfacCholesky", "kfac", R"({"inverse": "cholesky"})"},
                       {"sam", "sam"}};

/// Whether nothing in an entry, or on the diagonals of its matrices, can be negative.
bool is_second_moment(const std::string& entry) {
  for (const char* name : {"second_moment", "exp_avg_sq", "max_exp_avg_sq", "a.0", "p.0",
                           "a_values.0", "p_values.0"}) {
    if (entry == name) return true;
  }
  return false;
}

class CorruptState : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    optimizer_ = adaact::make_optimizer(GetParam().optimizer, *model_, GetParam().options);
    for (int i = 0; i < 2; ++i) step(model_, *optimizer_);
    good_ = named().export_state();
    before_ = bytes();
  }

  static void step(SmallNet& model, torch::optim::Optimizer& optimizer) {
    const auto batch = image_batch(8, torch::kFloat32);
    optimizer.step([&] {
      optimizer.zero_grad();
      auto loss = cross_entropy(model->forward(batch.x), batch.y);
      loss.backward();
      return loss;
    });
  }

  adaact::HasNamedState& named() { return dynamic_cast<adaact::HasNamedState&>(*optimizer_); }

  std::string bytes() {
    std::ostringstream out;
    named().named_state().save(out);
    return out.str();
  }

  void expect_refused(const OptimizerState& bad, const std::vector<std::string>& parts) {
    const auto error = error_of([&] { named().import_state(bad, "bad.safetensors"); });
    EXPECT_TRUE(contains(error, "bad.safetensors"));
    for (const auto& part : parts) EXPECT_TRUE(contains(error, part));
    EXPECT_EQ(bytes(), before_);
  }

  /// Each entry of each parameter in turn, altered.
  void alter_each(const std::function<bool(const std::string& entry, torch::Tensor& value)>& alter,
                  const std::vector<std::string>& parts) {
    int altered = 0;
    for (const auto& [parameter, entries] : good_.entries) {
      for (const auto& [entry, value] : entries) {
        auto bad = good_;
        auto copy = value.clone();
        if (!alter(entry, copy)) continue;
        bad.entries[parameter][entry] = copy;
        auto all = parts;
        all.push_back("'" + parameter + "'");
        all.push_back("'" + entry + "'");
        SCOPED_TRACE(parameter + " " + entry);
        expect_refused(bad, all);
        ++altered;
      }
    }
    altered_ = altered;
  }

  SmallNet model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  OptimizerState good_;
  std::string before_;
  int altered_ = 0;
};

TEST_P(CorruptState, ItsOwnStateIsTaken) {
  SmallNet copy;
  copy_values(model_, copy);
  const auto other = adaact::make_optimizer(GetParam().optimizer, *copy, GetParam().options);
  dynamic_cast<adaact::HasNamedState&>(*other).import_state(good_, "good.safetensors");
  torch::manual_seed(4);
  step(model_, *optimizer_);
  torch::manual_seed(4);
  step(copy, *other);
  expect_bit_identical(snapshot(*copy), snapshot(*model_));
}

TEST_P(CorruptState, ValuesThatAreNotFiniteAreRefused) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    alter_each(
        [&](const std::string& /*entry*/, torch::Tensor& value) {
          if (value.is_floating_point()) value.view(-1)[-1] = bad;
          return value.is_floating_point();
        },
        {std::isnan(bad) ? "is nan at [" : "inf at [", "expected finite numbers in Float"});
    EXPECT_GT(altered_, 0);
  }
}

TEST_P(CorruptState, ValuesTooLargeForTheParametersTypeAreRefused) {
  alter_each(
      [&](const std::string& /*entry*/, torch::Tensor& value) {
        if (!value.is_floating_point()) return false;
        value = value.to(torch::kFloat64);
        value.view(-1)[0] = 1e300;
        return true;
      },
      {"is 1e+300 at [0", "expected finite numbers in Float"});
  EXPECT_GT(altered_, 0);
}

TEST_P(CorruptState, NegativeSecondMomentsAreRefused) {
  alter_each(
      [&](const std::string& entry, torch::Tensor& value) {
        if (is_second_moment(entry)) value.view(-1)[0] = -1.0;
        return is_second_moment(entry);
      },
      {"is -1 at [0", "expected numbers ≥ 0"});
  EXPECT_EQ(altered_ > 0, std::string(GetParam().optimizer) != "sgd" &&
                              std::string(GetParam().optimizer) != "sam");  // whose base is SGD
}

TEST_P(CorruptState, IntegersInPlaceOfMomentsAreRefused) {
  alter_each(
      [&](const std::string& /*entry*/, torch::Tensor& value) {
        if (!value.is_floating_point()) return false;
        value = value.to(torch::kInt64);
        return true;
      },
      {"is Long of shape [", "expected floating-point numbers of shape ["});
}

TEST_P(CorruptState, OtherShapesAreRefused) {
  const std::vector<std::function<torch::Tensor(const torch::Tensor&)>> changes{
      [](const torch::Tensor& value) { return value.unsqueeze(0); },
      [](const torch::Tensor& value) {
        return torch::cat({value, value});
      },
      [](const torch::Tensor& value) { return value.narrow(0, 0, 0); },
      [](const torch::Tensor& value) { return value.select(0, 0); },
      [](const torch::Tensor& value) { return value.flatten(); }};
  for (const auto& change : changes) {
    alter_each(
        [&](const std::string& entry, torch::Tensor& value) {
          if (value.dim() == 0) return false;
          const auto changed = change(value).clone();
          const bool other_groups = entry == "a.0" && changed.dim() == 3;  // then others do not fit
          if (changed.sizes() == value.sizes() || other_groups) return false;
          value = changed;
          return true;
        },
        {", expected "});
    EXPECT_GT(altered_, 0);
  }
}

TEST_P(CorruptState, CountsOutOfRangeAreRefused) {
  for (const auto count : {std::int64_t{-1}, kTooMany, std::numeric_limits<std::int64_t>::min()}) {
    alter_each(
        [&](const std::string& /*entry*/, torch::Tensor& value) {
          if (value.scalar_type() != torch::kInt64) return false;
          value.view(-1)[-1] = count;  // of a run of rows its last number
          return true;
        },
        {std::to_string(count), "to 9007199254740992"});
  }
  for (const auto& [counter, value] : good_.counters) {
    for (const auto bad : {std::int64_t{-7}, kTooMany}) {
      auto state = good_;
      state.counters[counter] = bad;
      expect_refused(
          state, {"'" + counter + "' is " + std::to_string(bad), "expected 0 to 9007199254740992"});
    }
  }
}

TEST_P(CorruptState, RunsOfRowsOutOfOrderAreRefused) {
  using Runs = std::vector<std::vector<std::int64_t>>;
  for (const auto& runs : std::vector<Runs>{{{0, kTooMany, 1}},
                                            {{-1, 1, 1}},
                                            {{1, 1, 1}},
                                            {{2, 1, 1}},
                                            {{0, 2, 1}, {1, 3, 1}},
                                            {{2, 3, 1}, {0, 1, 1}}}) {
    alter_each(
        [&](const std::string& entry, torch::Tensor& value) {
          if (entry != "segments" && entry != "runs") return false;
          value = torch::empty({static_cast<std::int64_t>(runs.size()), 3}, torch::kInt64);
          for (std::size_t s = 0; s < runs.size(); ++s) {
            for (std::size_t i = 0; i < 3; ++i) {
              value[static_cast<std::int64_t>(s)][static_cast<std::int64_t>(i)] = runs[s][i];
            }
          }
          return true;
        },
        {"expected runs in order, within rows "});
  }
}

TEST_P(CorruptState, MissingEntriesAreRefused) {
  const std::string optimizer = GetParam().optimizer;
  for (const auto& [parameter, entries] : good_.entries) {
    for (const auto& [entry, value] : entries) {
      // FOOF and KFAC have no buffer before the first gradient or without momentum.
      const bool may_be_absent =
          (entry == "momentum_buffer" && (optimizer == "foof" || optimizer == "kfac")) ||
          (entry == "segments" && entries.count("second_moment") == 0);  // of a bias not seen yet
      if (may_be_absent) continue;
      auto bad = good_;
      bad.entries[parameter].erase(entry);
      if (bad.entries[parameter].empty()) continue;  // a parameter that has taken no step
      SCOPED_TRACE(parameter + " " + entry);
      expect_refused(bad, {"'" + parameter + "' lacks the entry '"});
    }
  }
}

TEST_P(CorruptState, EntriesThatNobodyKnowsAreRefused) {
  auto bad = good_;
  bad.entries.begin()->second["surprise"] = torch::zeros({2});
  expect_refused(bad, {"has an unknown entry 'surprise'"});
  bad = good_;
  bad.entries["nobody.weight"]["exp_avg"] = torch::zeros({2});
  expect_refused(bad, {"entries of 'nobody.weight', which is none of its parameters"});
}

TEST_P(CorruptState, OptionsOutOfRangeNameTheFile) {
  auto bad = good_;
  auto options = nlohmann::json::parse(bad.groups[0].options);
  auto& of_base = options.contains("base") ? options["base"] : options;
  of_base["lr"] = -1.0;
  bad.groups[0].options = options.dump();
  expect_refused(bad, {"the options of a parameter group", "lr is -1, expected a number ≥ 0"});
  of_base["lr"] = 0.1;
  of_base["non_finite_policy"] = "hope";
  bad.groups[0].options = options.dump();
  expect_refused(bad, {"the options of a parameter group", "non_finite_policy is \"hope\""});
}

TEST_P(CorruptState, AGroupThatIsThereTwiceIsRefused) {
  auto bad = good_;
  bad.groups.push_back(bad.groups[0]);
  expect_refused(bad, {"1 groups here, 2 in the file"});
}

TEST_P(CorruptState, NumbersThatAreNoIntegersAreRefusedInTheFile) {
  auto file = good_.to_file();
  const auto refuse = [&](const char* field, const std::string& text, const char* part) {
    auto bad = file;
    bad.metadata[field] = text;
    const auto error = error_of([&] { OptimizerState::from_file(bad, "bad.safetensors"); });
    EXPECT_TRUE(contains(error, "bad.safetensors"));
    EXPECT_TRUE(contains(error, part));
  };
  refuse("counters", R"({"steps": 1.5})", "the counter 'steps' is 1.5, expected a whole number");
  refuse("counters", R"({"steps": 1e300})",
         "the counter 'steps' is 1e+300, expected a whole number");
  refuse("counters", R"({"steps": 18446744073709551615})", "is 18446744073709551615, expected");
  refuse("counters", "[1]", "cannot be read");
  refuse("shapes", R"({"w": [1, 2.5]})", "a size of 'w' is 2.5, expected a whole number");
  refuse("shapes", R"({"w": 3})", "cannot be read");
}

INSTANTIATE_TEST_SUITE_P(States, CorruptState, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.title); });

TEST(CorruptStates, AFactorThatIsNotSymmetricIsRefused) {
  for (const auto& [name, options, entry] :
       {std::tuple{"foof", "{}", "a.0"}, std::tuple{"kfac", "{}", "p.0"},
        std::tuple{"adaact", R"({"covariance": "full"})", "second_moment"}}) {
    auto model = adaact::testing::make_mlp();
    const auto optimizer = adaact::make_optimizer(name, *model, options);
    adaact::testing::train_step(model, *optimizer, adaact::testing::row_batch(8));
    auto& named = dynamic_cast<adaact::HasNamedState&>(*optimizer);
    auto state = named.export_state();
    auto factor = state.entries["0.weight"][entry].clone();
    factor[0][0][1] += 10.0 * factor.abs().max();
    state.entries["0.weight"][entry] = factor;
    EXPECT_TRUE(contains(error_of([&] { named.import_state(state, "test"); }),
                         "expected a symmetric matrix"));
  }
}

TEST(CorruptStates, SgdAdamAndAdamwTakeFilesWithoutACountOfSteps) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    auto model = adaact::testing::make_mlp();
    const auto optimizer = adaact::make_optimizer(name, *model);
    adaact::testing::train_step(model, *optimizer, adaact::testing::row_batch(8));
    auto& named = dynamic_cast<adaact::HasNamedState&>(*optimizer);
    auto state = named.export_state();
    EXPECT_EQ(state.counters.erase("steps"), 1U);
    EXPECT_NO_THROW(named.import_state(state, "old"));
    EXPECT_EQ(named.export_state().counters.at("steps"), 0);
  }
}

}  // namespace
