// Trains LeNet-5 on Fashion-MNIST with AdaAct, SGD or Adam and tests it after every epoch.
//
//   fashion_mnist --optimizer adaact --epochs 3
#include <adaact/adaact.h>
#include <torch/torch.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr char kDefaultData[] = "/usr/share/datasets/fashion-mnist";  // where Debian puts it
constexpr char kPackage[] = "dataset-fashion-mnist";
constexpr std::int64_t kBatchSize = 128;
constexpr std::int64_t kTestBatchSize = 1000;

struct Settings {
  int epochs = 3;
  std::string optimizer = "adaact";
  fs::path data = kDefaultData;
  bool help = false;
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Settings parse_arguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help") {
      settings.help = true;
      return settings;
    }
    if (flag != "--epochs" && flag != "--optimizer" && flag != "--data") {
      throw UsageError("unknown argument '" + flag + "'; --help lists the known ones");
    }
    if (++i == argc) throw UsageError(flag + " needs a value");
    const std::string value = argv[i];
    if (flag == "--data") {
      settings.data = value;
    } else if (flag == "--optimizer") {
      if (value != "adaact" && value != "sgd" && value != "adam") {
        throw UsageError("--optimizer is '" + value + "', expected adaact, sgd or adam");
      }
      settings.optimizer = value;
    } else {
      const auto* end = value.data() + value.size();
      const auto [rest, error] = std::from_chars(value.data(), end, settings.epochs);
      if (error != std::errc() || rest != end || settings.epochs < 1) {
        throw UsageError("--epochs is '" + value + "', expected a whole number from 1");
      }
    }
  }
  return settings;
}

void print_help() {
  std::printf(
      "usage: fashion_mnist [--epochs N] [--optimizer adaact|sgd|adam] [--data DIR]\n\n"
      "Trains LeNet-5 on Fashion-MNIST and tests it after every epoch.\n\n"
      "  --epochs N        passes over the training images (default 3)\n"
      "  --optimizer NAME  adaact (default), sgd or adam\n"
      "  --data DIR        folder of the four .gz files (default %s)\n",
      kDefaultData);
}

[[noreturn]] void complain(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + " " + what);
}

std::string read_gzip(const fs::path& path) {
  if (!fs::exists(path)) {
    complain(path, std::string("is missing; it is in Debian's package ") + kPackage +
                       ", or name another folder with --data");
  }
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) complain(path, std::string("cannot be opened: ") + std::strerror(errno));

  std::string content;
  std::string chunk(1 << 20, '\0');
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()))) > 0) {
    content.append(chunk, 0, static_cast<std::size_t>(count));
  }
  int code = Z_OK;
  const std::string message = gzerror(file.get(), &code);
  if (code == Z_BUF_ERROR) complain(path, "is truncated: its compressed data ends early");
  if (code == Z_ERRNO) complain(path, std::string("cannot be read: ") + std::strerror(errno));
  if (code != Z_OK) throw std::runtime_error(message);  // zlib's message names the file
  return content;
}

/// Reads a gzip-compressed IDX file: a magic number, the number of items, the shape of an item, all
/// as big-endian 32-bit numbers, then one byte per element. Returns (items, item_shape...), kByte.
torch::Tensor read_idx(const fs::path& path, std::uint32_t magic,
                       const std::vector<std::int64_t>& item_shape) {
  const auto content = read_gzip(path);
  const auto header_size = 4 * (2 + item_shape.size());
  if (content.size() < header_size) complain(path, "is truncated: it has no complete header");
  const auto number = [&content](std::size_t index) {
    std::uint32_t value = 0;
    for (std::size_t i = 4 * index; i < 4 * (index + 1); ++i) {
      value = (value << 8) | static_cast<unsigned char>(content[i]);
    }
    return value;
  };

  if (number(0) != magic) {
    complain(path, "starts with the magic number " + std::to_string(number(0)) + ", expected " +
                       std::to_string(magic));
  }
  const auto items = number(1);
  std::vector<std::int64_t> shape = {items};
  std::size_t size = items;
  for (std::size_t i = 0; i < item_shape.size(); ++i) {
    if (number(2 + i) != item_shape[i]) {
      complain(path, "has items of size " + std::to_string(number(2 + i)) + " in dimension " +
                         std::to_string(i + 1) + ", expected " + std::to_string(item_shape[i]));
    }
    shape.push_back(item_shape[i]);
    size *= static_cast<std::size_t>(item_shape[i]);
  }
  const auto bytes = content.size() - header_size;
  if (bytes != size) {
    complain(path, (bytes < size ? "is truncated: " : "is too long: ") + std::to_string(bytes) +
                       " bytes of data, its header announces " + std::to_string(size));
  }
  auto tensor = torch::empty(shape, torch::kByte);
  std::memcpy(tensor.data_ptr(), content.data() + header_size, size);
  return tensor;
}

struct Dataset {
  torch::Tensor images;  // (N, 1, 28, 28), normalised
  torch::Tensor labels;  // (N), kLong

  std::int64_t size() const { return labels.size(0); }
};

Dataset load(const fs::path& folder, const std::string& part) {
  const auto images_file = folder / (part + "-images-idx3-ubyte.gz");
  const auto labels_file = folder / (part + "-labels-idx1-ubyte.gz");
  const auto images = read_idx(images_file, 2051, {28, 28});
  const auto labels = read_idx(labels_file, 2049, {});
  if (labels.size(0) != images.size(0) || labels.size(0) == 0) {
    complain(labels_file, "holds " + std::to_string(labels.size(0)) + " labels for " +
                              std::to_string(images.size(0)) + " images");
  }
  if (labels.max().item<int>() > 9) complain(labels_file, "holds a label above 9");
  // Mean and standard deviation of the training images.
  return {(images.to(torch::kFloat).unsqueeze(1) / 255 - 0.2860) / 0.3530, labels.to(torch::kLong)};
}

torch::nn::Sequential make_lenet5() {
  namespace nn = torch::nn;
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 6, 5).padding(2)), nn::ReLU(),
                        nn::MaxPool2d(2),                                      // (N, 6, 14, 14)
                        nn::Conv2d(6, 16, 5), nn::ReLU(), nn::MaxPool2d(2),    // (N, 16, 5, 5)
                        nn::Flatten(), nn::Linear(400, 120), nn::ReLU(),       // (N, 120)
                        nn::Linear(120, 84), nn::ReLU(), nn::Linear(84, 10));  // (N, 10)
}

/// With the paper's settings.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        torch::nn::Module& model) {
  if (name == "sgd") {
    return std::make_unique<torch::optim::SGD>(
        model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4));
  }
  if (name == "adam") {
    return std::make_unique<torch::optim::Adam>(model.parameters(),
                                                torch::optim::AdamOptions(1e-3).weight_decay(5e-4));
  }
  return std::make_unique<adaact::AdaAct>(model, adaact::AdaActOptions(0.1).weight_decay(2e-3));
}

/// One pass over the data in random order; returns the mean loss.
double train_epoch(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                   const Dataset& data) {
  model->train();
  double loss_sum = 0;
  for (const auto& batch : torch::randperm(data.size(), torch::kLong).split(kBatchSize)) {
    optimizer.zero_grad();
    const auto scores = model->forward(data.images.index_select(0, batch));  // (batch, 10)
    const auto loss = torch::cross_entropy_loss(scores, data.labels.index_select(0, batch));
    loss.backward();
    optimizer.step();
    loss_sum += loss.item<double>() * static_cast<double>(batch.size(0));
  }
  return loss_sum / static_cast<double>(data.size());
}

double test_accuracy(torch::nn::Sequential& model, const Dataset& data) {
  const torch::NoGradGuard no_grad;  // also keeps AdaAct from observing the test images
  model->eval();
  std::int64_t correct = 0;
  for (std::int64_t begin = 0; begin < data.size(); begin += kTestBatchSize) {
    const auto end = std::min(begin + kTestBatchSize, data.size());
    const auto predicted = model->forward(data.images.slice(0, begin, end)).argmax(1);
    correct += predicted.eq(data.labels.slice(0, begin, end)).sum().item<std::int64_t>();
  }
  return static_cast<double>(correct) / static_cast<double>(data.size());
}

void train(const Settings& settings) {
  const auto training = load(settings.data, "train");
  const auto test = load(settings.data, "t10k");

  // The same first weights and order of images for every optimizer. Not 0: this network has no
  // BatchNorm, and from there SGD with its learning rate of 0.1 stays at chance level.
  torch::manual_seed(1);
  auto model = make_lenet5();
  const auto optimizer = make_optimizer(settings.optimizer, *model);
  const auto first_lr = optimizer->param_groups()[0].options().get_lr();

  std::printf("LeNet-5 on Fashion-MNIST with %s, learning rate %g\n", settings.optimizer.c_str(),
              first_lr);
  std::printf("epoch  train loss  test accuracy  seconds  images/s\n");
  std::fflush(stdout);
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    const auto lr = 0.5 * first_lr * (1 + std::cos(M_PI * epoch / settings.epochs));
    for (auto& group : optimizer->param_groups()) group.options().set_lr(lr);

    const auto start = std::chrono::steady_clock::now();
    const auto loss = train_epoch(model, *optimizer, training);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;

    std::printf("%5d %11.4f %12.2f %% %8.1f %9.0f\n", epoch + 1, loss,
                100 * test_accuracy(model, test), time.count(),
                static_cast<double>(training.size()) / time.count());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto settings = parse_arguments(argc, argv);
    if (settings.help) {
      print_help();
    } else {
      train(settings);
    }
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 1;
  }
}
