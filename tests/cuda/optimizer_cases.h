#pragma once

// Optimizers whose steps, or passes, a CUDA graph holds.

#include <string>

#include <nlohmann/json.hpp>

namespace adaact::testing {

struct OptimizerCase {
  std::string name;
  std::string optimizer;
  std::string options;

  std::string options_with(const std::string& more) const {
    auto all = nlohmann::json::parse(options);
    all.update(nlohmann::json::parse(more));
    return all.dump();
  }
};

/// Factors and inverses are due several times in a few epochs, and not in step with them.
inline const OptimizerCase kOptimizerCases[]{
    {"adaact", "adaact", "{}"},
    {"sgd", "sgd", "{}"},
    {"adam", "adam", "{}"},
    {"adamw", "adamw", "{}"},
    {"adan", "adan", "{}"},
    {"lamb", "lamb", "{}"},
    {"foof", "foof", R"({"covariance_period": 2, "inverse_period": 4})"},
    {"kfac", "kfac", R"({"covariance_period": 2, "inverse_period": 4})"},
    {"full_covariance", "adaact", R"({"covariance": "full", "refresh_period": 3})"},
};

}  // namespace adaact::testing
