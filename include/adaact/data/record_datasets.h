#pragma once

// Data sets of a few files that hold all images one after the other.

#include <cstdint>
#include <filesystem>
#include <memory>

#include <adaact/data/dataset.h>

namespace adaact {

/// IDX files, gzip or plain, with or without ".gz" in the name. `info` says what to expect of them;
/// `limit` 0 is no limit.
std::shared_ptr<ImageTensorDataset> read_mnist(const std::filesystem::path& folder, Split split,
                                               std::int64_t limit, DatasetInfo info);

enum class CifarKind : std::uint8_t { Cifar10, Cifar100 };

/// The binary version, in `folder` or in the subfolder that its archive unpacks to. Class names
/// come from the text file beside the images; without it they are numbers. CIFAR-100 has its fine
/// labels.
std::shared_ptr<ImageTensorDataset> read_cifar(const std::filesystem::path& folder, CifarKind kind,
                                               Split split, std::int64_t limit, DatasetInfo info);

}  // namespace adaact
