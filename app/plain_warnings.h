#pragma once

#include <string>

#include <c10/util/Exception.h>
#include <torch/version.h>

#include "commands.h"

namespace adaact::app {

/// While it lives, LibTorch's warnings appear as a person wants them: without the place in the source.
class PlainWarnings {
 public:
  PlainWarnings() : guard_(&handler_) {}

 private:
  // LibTorch 2 changed both the class and its namespace.
  class Handler : public c10::WarningHandler {
#if TORCH_VERSION_MAJOR >= 2
    void process(const c10::Warning& warning) override { print_message(warning.msg()); }
#else
    void process(const c10::SourceLocation& /*place*/, const std::string& message,
                 bool /*verbatim*/) override {
      print_message(message);
    }
#endif
  };
#if TORCH_VERSION_MAJOR >= 2
  using Guard = c10::WarningUtils::WarningHandlerGuard;
#else
  using Guard = c10::Warning::WarningHandlerGuard;
#endif

  Handler handler_;
  Guard guard_;
};

}  // namespace adaact::app
