#pragma once

#include <string>

namespace adaact {

/// What to do where the files of a data set are not there: where they come from, and where they go.
inline std::string how_to_get(const std::string& dataset) {
  const std::string idx_files =
      "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and "
      "t10k-labels-idx1-ubyte.gz";
  const std::string into = " into data/" + dataset + ", or name their folder by --data-dir";
  if (dataset == "fashion-mnist") {
    return "apt-get install dataset-fashion-mnist, or put " + idx_files +
           " from github.com/zalandoresearch/fashion-mnist" + into;
  }
  if (dataset == "mnist") {
    return "put " + idx_files + " from storage.googleapis.com/cvdf-datasets/mnist" + into;
  }
  if (dataset == "cifar10" || dataset == "cifar100") {
    const std::string archive =
        dataset == "cifar10" ? "cifar-10-binary.tar.gz" : "cifar-100-binary.tar.gz";
    return "unpack " + archive + " from www.cs.toronto.edu/~kriz/cifar.html" + into;
  }
  return "name by --data-dir a folder that has a folder for each class in train/ and in val/";
}

}  // namespace adaact
