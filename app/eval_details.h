#pragma once

#include <adaact/train/test_details.h>
#include <nlohmann/json.hpp>

namespace adaact::app {

/// Accuracy of each class and the confusion matrix; of many classes the worst, and the most frequent
/// mistakes.
void print_details(const TestDetails& details);

/// All of it but the pictures.
nlohmann::json details_json(const TestDetails& details);

}  // namespace adaact::app
