#pragma once

#include <string>

#include <adaact/data/augment.h>

namespace adaact {

/// RandAugment as timm's users write it, "rand-m7-mstd0.5-inc1": m the magnitude (0 to 10), mstd its standard deviation (0
/// where absent), n operations (2), p the probability of each (0.5). inc1 must be there: operations grow with the
/// magnitude here. What is wrong is a c10::ValueError that names the part.
RandAugmentOptions parse_rand_augment(const std::string& text);

}  // namespace adaact
