#pragma once

#include <cstdint>
#include <string>

#include <adaact/data/dataset.h>

namespace adaact {

/// An image of a data set as a PNG with sides of at most `most` pixels: as it is where it fits, else each
/// pixel the mean of those that it takes the place of. Of three channels and more the first three are
/// red, green and blue, of fewer the first is grey.
std::string thumbnail_png(const Dataset& data, std::int64_t index, std::int64_t most);

}  // namespace adaact
