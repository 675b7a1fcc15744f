#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/data/image_part.h>
#include <torch/types.h>

namespace adaact {

enum class Split : std::uint8_t { Train, Test };

struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t bytes() const { return channels * height * width; }
};

/// Per channel, for pixels scaled to [0, 1]: (pixel - mean) / std.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> std;
};

struct DatasetInfo {
  std::string name;
  ImageShape shape;
  std::vector<std::string> class_names;
  Normalization normalization;
  /// What a user should know of it, each a short sentence: which files were left out and why.
  std::vector<std::string> remarks = {};
};

/// Labelled images of one size, 8 bits a channel. All methods may be called from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const DatasetInfo& info() const { return info_; }
  const std::string& name() const { return info_.name; }
  const ImageShape& shape() const { return info_.shape; }
  const std::vector<std::string>& class_names() const { return info_.class_names; }
  const Normalization& normalization() const { return info_.normalization; }
  std::int64_t classes() const { return static_cast<std::int64_t>(info_.class_names.size()); }

  virtual std::int64_t size() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;

  /// Writes shape().bytes() bytes: the planes (C, H, W) of one image.
  virtual void read(std::int64_t index, std::uint8_t* pixels) const = 0;

  /// Writes a part of one image, scaled to the size of all: `choose` is told the size of the whole, which of
  /// a photograph is another than shape() says.
  virtual void read_part(std::int64_t index, const ChoosePart& choose, std::uint8_t* pixels) const;

  /// The file that an image is decoded from; empty where there is none.
  virtual std::vector<std::uint8_t> encoded(std::int64_t index) const;

  /// Where the bytes of read() already lie in memory; null where they do not.
  virtual const std::uint8_t* pixels(std::int64_t index) const;

 protected:
  explicit Dataset(DatasetInfo info);

  void check_index(std::int64_t index) const;
  /// For constructors: info() may be read by several threads afterwards.
  void add_remark(std::string remark);

 private:
  DatasetInfo info_;
};

/// A data set that fits in memory.
class ImageTensorDataset : public Dataset {
 public:
  /// images (N, C, H, W) kByte, labels (N) kLong.
  ImageTensorDataset(DatasetInfo info, const torch::Tensor& images, const torch::Tensor& labels);

  std::int64_t size() const override { return size_; }
  std::int64_t label(std::int64_t index) const override;
  void read(std::int64_t index, std::uint8_t* pixels) const override;
  const std::uint8_t* pixels(std::int64_t index) const override;

  const torch::Tensor& images() const { return images_; }
  const torch::Tensor& labels() const { return labels_; }

 private:
  torch::Tensor images_;
  torch::Tensor labels_;
  std::int64_t size_;
  const std::uint8_t* first_pixel_;
  const std::int64_t* first_label_;
};

}  // namespace adaact
