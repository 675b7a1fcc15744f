#include "fuzz/fuzz_targets.h"

namespace adaact::fuzz {

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> all{safetensors_target(),
                                           optimizer_state_target(),
                                           weights_target(),
                                           checkpoint_target(),
                                           model_card_target(),
                                           idx_images_target(),
                                           idx_labels_target(),
                                           cifar_target(),
                                           class_names_target(),
                                           jpeg_target(),
                                           png_target(),
                                           webp_target(),
                                           exif_target(),
                                           picture_target(),
                                           image_folder_target(),
                                           shard_target(),
                                           shard_index_target(),
                                           run_config_target(),
                                           sweep_plan_target(),
                                           metrics_target(),
                                           run_model_target(),
                                           run_findings_target(),
                                           environment_target(),
                                           test_details_target(),
                                           measurement_target(),
                                           optimizer_options_target(),
                                           optimizer_config_target()};
  return all;
}

}  // namespace adaact::fuzz
