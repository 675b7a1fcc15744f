#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <adaact/models/model.h>

namespace adaact {

/// A model in evaluation mode while this lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) : model_(model), was_training_(model.is_training()) {
    for (const auto& part : model.modules(/*include_self=*/false)) {
      parts_.emplace_back(part, part->is_training());
    }
    model_.eval();
  }
  ~EvaluationMode() {
    model_.train(was_training_);  // and all of its parts, of which some may be frozen
    for (const auto& [part, was_training] : parts_) part->train(was_training);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model& model_;
  bool was_training_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> parts_;  // parents first
};

}  // namespace adaact
