#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <torch/types.h>

namespace adaact {

/// How the n inputs of a layer go together, over images and, for a convolution, over patches. The
/// constant 1 that stands for the bias is left out: it is no activation.
struct ActivationCovariance {
  std::string layer;        // "fc1"
  torch::Tensor uncentred;  // A = E[a aᵀ] (n, n) float64, which the paper calls the covariance
  torch::Tensor centred;    // E[a aᵀ] − E[a] E[a]ᵀ
};

/// The covariances of every layer that reads activations and not the images themselves, in the
/// order of the model. Takes one pass over the loader in evaluation mode.
std::vector<ActivationCovariance> activation_covariances(Model& model, Loader& images,
                                                         torch::Device device);

/// Two inputs are related if |A_ij| > kRelated √(A_ii A_jj).
inline constexpr double kRelated = 0.1;

/// How far a symmetric matrix with nothing negative on its diagonal is a diagonal one.
struct DiagonalShare {
  std::int64_t size = 0;       // n
  double mass = 0.0;           // Σ|A_ii| / Σ|A_ij|: 1/n if all entries are alike
  double median_on = 0.0;      // of |A_ii|
  double median_off = 0.0;     // of |A_ij|, i ≠ j
  double related_pairs = 0.0;  // share of those i ≠ j
};

/// Needs a matrix with n ≥ 2.
DiagonalShare diagonal_share(const torch::Tensor& matrix);

}  // namespace adaact
