#pragma once

#include <adaact/train/test_details.h>
#include <nlohmann/json.hpp>

namespace adaact::app {

/// Prints the accuracy of each class and the confusion matrix; where there are many classes, the worst of them and the
/// most frequent mistakes.
void print_details(const TestDetails& details);

/// Makes JSON of all details but the pictures.
nlohmann::json details_json(const TestDetails& details);

}  // namespace adaact::app
