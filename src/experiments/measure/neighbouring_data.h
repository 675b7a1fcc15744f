#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <adaact/data/dataset.h>

namespace adaact {

/// A data set of which one sample is another one: S′ beside S.
class NeighbouringDataset : public Dataset {
 public:
  /// Sample `replaced` of the original is sample `replacement` of `source`.
  NeighbouringDataset(std::shared_ptr<const Dataset> original, std::int64_t replaced,
                      const Dataset& source, std::int64_t replacement);

  std::int64_t size() const override { return original_->size(); }
  std::int64_t label(std::int64_t index) const override;
  void read(std::int64_t index, std::uint8_t* pixels) const override;
  const std::uint8_t* pixels(std::int64_t index) const override;

 private:
  std::shared_ptr<const Dataset> original_;
  std::int64_t replaced_;
  std::int64_t label_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace adaact
