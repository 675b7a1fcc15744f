#include "optim/adaact/adaact_options.h"

namespace adaact {

AdaActOptions::AdaActOptions(double lr) : lr_(lr) {}

template struct JsonOptions<AdaActOptions>;

}  // namespace adaact
