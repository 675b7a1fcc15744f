#pragma once

#include <vector>

namespace adaact {

// How a training began and how it ended: over a tenth of its epochs, one at least. In the second tenth
// what is peculiar to the beginning is over.
double mean_of_first_tenth(const std::vector<double>& epochs);
double mean_of_second_tenth(const std::vector<double>& epochs);
double mean_of_last_tenth(const std::vector<double>& epochs);

}  // namespace adaact
