#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/train/run_config.h>
#include <adaact/train/trainer.h>

namespace adaact::app {

/// What a training is made of, in a few lines: data, model, device, optimizer, schedule, steps, place.
/// `config` is resolved.
std::string train_block(const RunConfig& config, const std::string& out,
                        const std::vector<std::uint64_t>& seeds, const Trainer& trainer);

/// "cosine over 10 epochs, after 1 of warm-up"
std::string schedule_text(const RunConfig& config);

}  // namespace adaact::app
