#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <torch/torch.h>

#include "data/jpeg_batch_decoder.h"
#include "data/nvjpeg_hardware.h"
#include "data/nvjpeg_memory.h"
#include "data/nvjpeg_one_by_one.h"
#include "data/nvjpeg_task.h"
#include "data/own_cuda_stream.h"

namespace adaact {
namespace {

torch::Device gpu_of_decoder(torch::Device device) {
  TORCH_CHECK(device.is_cuda(), "JpegBatchDecoder: device is ", device, ", expected a CUDA device");
  return device.has_index() ? device : torch::Device(torch::kCUDA, c10::cuda::current_device());
}

std::int64_t rgb_bytes(const PixelBox& box) { return 3 * box.height * box.width; }

bool is_all_of(const PixelBox& box, const PlainJpeg& jpeg) {
  return box.height == jpeg.height && box.width == jpeg.width;
}

bool is_inside(const PixelBox& box, const PlainJpeg& jpeg) {
  return box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
         box.top <= jpeg.height - box.height && box.left <= jpeg.width - box.width;
}

void check_part(const JpegPart& part, const torch::Tensor& pixels) {
  const auto& box = part.box;
  const auto& jpeg = part.jpeg;
  TORCH_CHECK(part.bytes != nullptr && jpeg.size > 0, "JpegBatchDecoder: a part has no file");
  TORCH_CHECK(is_inside(box, jpeg), "JpegBatchDecoder: ", box.height, "x", box.width, " from row ",
              box.top, " and column ", box.left, " on, expected a part of ", jpeg.height, "x",
              jpeg.width);
  TORCH_CHECK(part.output_offset >= 0 && part.output_offset <= pixels.numel() - rgb_bytes(box),
              "JpegBatchDecoder: ", rgb_bytes(box), " bytes from byte ", part.output_offset,
              " on, expected a part of ", pixels.numel());
}

/// The first and last rows and columns of a region are those that a decoder cannot spread colours to from beyond it, as
/// nvJPEG before 13.2 does not. So more is decoded than the part.
PixelBox with_neighbours(const PixelBox& box, const PlainJpeg& jpeg) {
  constexpr std::int64_t kNeighbours = 4;
  const auto before = [](std::int64_t begin) {
    return std::max<std::int64_t>(begin - kNeighbours, 0) / kNeighbours * kNeighbours;
  };
  const auto top = before(box.top);
  const auto left = before(box.left);
  return {top, left, std::min(box.top + box.height + kNeighbours, jpeg.height) - top,
          std::min(box.left + box.width + kNeighbours, jpeg.width) - left};
}

PixelBox region_of(const JpegPart& part) {
  constexpr std::int64_t kLeastSide =
      8;  // a block; what nvJPEG says to smaller regions nobody has told
  const bool small = std::min(part.box.height, part.box.width) < kLeastSide;
  const bool spread = (part.jpeg.shares_colour || small) && !is_all_of(part.box, part.jpeg);
  return spread ? with_neighbours(part.box, part.jpeg) : part.box;
}

bool is_same(const PixelBox& a, const PixelBox& b) {
  return a.top == b.top && a.left == b.left && a.height == b.height && a.width == b.width;
}

nvjpegImage_t rgb_image(std::uint8_t* pixels, std::int64_t width) {
  nvjpegImage_t image{};
  image.channel[0] = pixels;
  image.pitch[0] = static_cast<std::size_t>(3 * width);
  return image;
}

/// The files one after the other.
torch::Tensor pinned_files(const std::vector<JpegPart>& parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.jpeg.size;
  auto files = torch::empty({static_cast<std::int64_t>(bytes)},
                            torch::dtype(torch::kByte).pinned_memory(true));
  auto* to = files.data_ptr<std::uint8_t>();
  for (const auto& part : parts) {
    std::memcpy(to, part.bytes, part.jpeg.size);
    to += part.jpeg.size;
  }
  return files;
}

}  // namespace

class JpegBatchDecoder::Impl {
 public:
  Impl(torch::Device device, bool try_hardware)
      : device_(gpu_of_decoder(device)),
        own_stream_(device_),
        stream_(own_stream_.get()),
        memory_(stream_) {
    const c10::cuda::CUDAGuard guard(device_);
    if (try_hardware) hardware_ = NvjpegHardware::of_gpu(memory_);
    one_by_one_ = std::make_unique<NvjpegOneByOne>(memory_);
  }

  ~Impl() {
    const c10::cuda::CUDAGuard guard(device_);
    cudaStreamSynchronize(stream_);
    one_by_one_.reset();
    hardware_.reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool in_hardware() const { return hardware_ != nullptr; }

  std::vector<std::size_t> decode(const std::vector<JpegPart>& parts, const torch::Tensor& pixels) {
    const c10::cuda::CUDAGuard guard(device_);
    check(pixels);
    for (const auto& part : parts) check_part(part, pixels);
    if (parts.empty()) return {};
    const auto current = c10::cuda::getCurrentCUDAStream(device_.index());
    turn_ = 1 - turn_;
    auto& turn = turns_[turn_];
    turn.done.synchronize();
    turn.begun.record(current);
    turn.begun.block(stream_);
    std::vector<std::size_t> left;
    try {
      left = decode_on_stream(parts, pixels);
      turn.done.record(stream_);
    } catch (...) {
      cudaStreamSynchronize(stream_);  // what it reads may be gone as soon as somebody catches this
      throw;
    }
    turn.done.block(current);
    return left;
  }

 private:
  /// What has been begun lately. nvJPEG reads its files until it is done.
  struct Turn {
    torch::Tensor files;
    at::cuda::CUDAEvent begun;
    at::cuda::CUDAEvent done;
  };

  void check(const torch::Tensor& pixels) const {
    TORCH_CHECK(pixels.scalar_type() == torch::kByte && pixels.is_contiguous() &&
                    pixels.device() == device_,
                "JpegBatchDecoder: pixels are ", pixels.scalar_type(), " on ", pixels.device(),
                pixels.is_contiguous() ? "" : " and not contiguous",
                ", expected contiguous Byte on ", device_);
    TORCH_CHECK(
        c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None,
        "JpegBatchDecoder: decode() was called in the capture of a graph, expected outside");
  }

  std::vector<std::size_t> decode_on_stream(const std::vector<JpegPart>& parts,
                                            const torch::Tensor& pixels) {
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    turns_[turn_].files = pinned_files(parts);
    const auto larger = memory_for_larger_regions(parts, device_);
    const auto tasks = tasks_of(parts, pixels, larger);
    const auto left = left_of(tasks);
    auto next_left = left.begin();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (next_left != left.end() && *next_left == i) {
        ++next_left;
      } else {
        copy_from_larger_region(parts[i], tasks[i], pixels);
      }
    }
    return left;
  }

  /// For parts whose region is more than they are.
  static torch::Tensor memory_for_larger_regions(const std::vector<JpegPart>& parts,
                                                 torch::Device device) {
    std::int64_t bytes = 0;
    for (const auto& part : parts) {
      const auto region = region_of(part);
      if (!is_same(region, part.box)) bytes += rgb_bytes(region);
    }
    return torch::empty({bytes}, torch::dtype(torch::kByte).device(device));
  }

  std::vector<NvjpegTask> tasks_of(const std::vector<JpegPart>& parts, const torch::Tensor& pixels,
                                   const torch::Tensor& larger) const {
    const auto* file = turns_[turn_].files.data_ptr<std::uint8_t>();
    auto* next_larger = larger.data_ptr<std::uint8_t>();
    std::vector<NvjpegTask> tasks;
    tasks.reserve(parts.size());
    for (const auto& part : parts) {
      const auto& jpeg = part.jpeg;
      NvjpegTask task;
      task.bytes = file;
      task.size = jpeg.size;
      task.pixels = jpeg.height * jpeg.width;
      task.progressive = jpeg.progressive;
      task.region = region_of(part);
      task.whole = is_all_of(task.region, jpeg);
      if (is_same(task.region, part.box)) {
        task.to = rgb_image(pixels.data_ptr<std::uint8_t>() + part.output_offset, part.box.width);
      } else {
        task.to = rgb_image(next_larger, task.region.width);
        next_larger += rgb_bytes(task.region);
      }
      file += jpeg.size;
      tasks.push_back(task);
    }
    return tasks;
  }

  /// Decodes what can be, and returns the places of the others.
  std::vector<std::size_t> left_of(const std::vector<NvjpegTask>& tasks) {
    std::vector<std::size_t> left_by_hardware(tasks.size());
    std::iota(left_by_hardware.begin(), left_by_hardware.end(), std::size_t{0});
    if (hardware_) left_by_hardware = hardware_->decode(tasks, turn_, stream_);
    std::vector<std::size_t> left;
    for (const auto i : left_by_hardware) {
      if (!one_by_one_->decode(tasks[i], stream_)) left.push_back(i);
    }
    return left;
  }

  void copy_from_larger_region(const JpegPart& part, const NvjpegTask& task,
                               const torch::Tensor& pixels) const {
    const auto& box = part.box;
    const auto& region = task.region;
    if (is_same(region, box)) return;
    const auto* from =
        task.to.channel[0] + 3 * ((box.top - region.top) * region.width + (box.left - region.left));
    const auto row = static_cast<std::size_t>(3 * box.width);
    C10_CUDA_CHECK(cudaMemcpy2DAsync(
        pixels.data_ptr<std::uint8_t>() + part.output_offset, row, from, task.to.pitch[0], row,
        static_cast<std::size_t>(box.height), cudaMemcpyDeviceToDevice, stream_));
  }

  const torch::Device device_;
  // nvJPEG's memory is used on one stream, whatever stream the caller is on.
  const OwnCudaStream own_stream_;
  const c10::cuda::CUDAStream stream_;
  NvjpegMemory memory_;
  std::unique_ptr<NvjpegHardware> hardware_;  // nothing where there is none
  std::unique_ptr<NvjpegOneByOne> one_by_one_;
  std::array<Turn, 2> turns_;
  std::size_t turn_ = 0;
};

bool has_nvjpeg() { return true; }

JpegBatchDecoder::JpegBatchDecoder(torch::Device device, bool try_hardware)
    : impl_(std::make_unique<Impl>(device, try_hardware)) {}
JpegBatchDecoder::~JpegBatchDecoder() = default;

bool JpegBatchDecoder::in_hardware() const { return impl_->in_hardware(); }

std::vector<std::size_t> JpegBatchDecoder::decode(const std::vector<JpegPart>& parts,
                                                  const torch::Tensor& pixels) {
  return impl_->decode(parts, pixels);
}

}  // namespace adaact
