#pragma once

// Everything a program that uses the library needs.

#include <adaact/io/safetensors.h>
#include <adaact/moments/moments.h>
#include <adaact/observe/layer_map.h>
#include <adaact/observe/observer.h>
#include <adaact/optim/adaact.h>
#include <adaact/optim/adan.h>
#include <adaact/optim/foof.h>
#include <adaact/optim/kfac.h>
#include <adaact/optim/lamb.h>
#include <adaact/optim/libtorch.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
#include <adaact/optim/param_groups.h>
#include <adaact/optim/registry.h>
#include <adaact/optim/sam.h>
#include <adaact/optim/schedules.h>
