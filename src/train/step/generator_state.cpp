#include "train/step/generator_state.h"

#include <mutex>

#include <torch/torch.h>

#include "data/batch_parts.h"

namespace adaact {

at::Generator generator_of(torch::Device device) {
  return at::globalContext().defaultGenerator(device);
}

torch::Tensor state_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const torch::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

void catch_up_with_generator(std::int64_t whole_batch, const LoaderOptions& data,
                             torch::Device device, Communicator& ranks) {
  if (!has_empty_part(whole_batch, data.parts, data.mix.any())) return;
  const auto generator = generator_of(device);
  const auto state = state_of(generator);
  ranks.broadcast({state}, /*root=*/ranks.size() - 1);  // the last part is never empty
  set_state(generator, state);
}

}  // namespace adaact
