#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <adaact/observe/observer.h>

namespace adaact {

/// How errors call what is measured of an input. The square of a larger input is infinite in float32, in which
/// V is kept, too.
inline constexpr char kMomentOfInput[] =
    "the second moment of the input (finite in float32 for inputs below 1.8e19) of the layer with "
    "weight";

/// Throws where an input cannot have been this weight's, which an explicit observation may claim.
inline void check_observed_features(const torch::Tensor& weight, const LayerUse& use,
                                    std::int64_t observed) {
  const auto features = weight.numel() / weight.size(0);
  const auto groups = use.geometry.groups;
  TORCH_CHECK(observed == features && (use.row_end - use.row_begin) % groups == 0,
              "adaact: an input with ", observed, " features in ", groups,
              " groups was observed for a weight of shape ", weight.sizes(), ", expected ",
              features, " features; a convolution needs its geometry");
}

/// Throws where what was observed since the last step is of rows or, where given, of features (of which a bias is
/// one more) that the weight no longer has.
inline void check_observed_shape(const NamedParameter& weight, std::int64_t row_end,
                                 std::optional<std::int64_t> features = {}) {
  const auto& tensor = weight.tensor;
  const auto own = tensor.size(0) == 0 ? 0 : tensor.numel() / tensor.size(0);
  TORCH_CHECK(row_end <= tensor.size(0) && (!features || *features == own || *features == own + 1),
              "adaact: the layer with weight '", weight.name, "' was observed with ", row_end,
              " rows", features ? " and " + std::to_string(*features) + " features" : "",
              ", but the weight has shape ", tensor.sizes(),
              " now, expected the shape that it was used with");
}

}  // namespace adaact
