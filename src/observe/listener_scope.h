#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace adaact {

/// What is done on behalf of an observer must not be observed, recorded by autograd or cast by autocast.
struct ListenerScope {
  at::DisableRecordFunctionGuard no_records;
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

}  // namespace adaact
