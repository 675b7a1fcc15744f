#pragma once

// The targets, each beside its reader's seeds in a file of its own or with a near relative.

#include "fuzz/fuzz_target.h"

namespace adaact::fuzz {

FuzzTarget safetensors_target();
FuzzTarget optimizer_state_target();
FuzzTarget weights_target();
FuzzTarget checkpoint_target();
FuzzTarget model_card_target();
FuzzTarget idx_images_target();
FuzzTarget idx_labels_target();
FuzzTarget cifar_target();
FuzzTarget class_names_target();
FuzzTarget jpeg_target();
FuzzTarget png_target();
FuzzTarget webp_target();
FuzzTarget exif_target();
FuzzTarget picture_target();
FuzzTarget image_folder_target();
FuzzTarget shard_target();
FuzzTarget shard_index_target();
FuzzTarget run_config_target();
FuzzTarget sweep_plan_target();
FuzzTarget metrics_target();
FuzzTarget run_model_target();
FuzzTarget run_findings_target();
FuzzTarget environment_target();
FuzzTarget test_details_target();
FuzzTarget measurement_target();
FuzzTarget optimizer_options_target();
FuzzTarget optimizer_config_target();

}  // namespace adaact::fuzz
