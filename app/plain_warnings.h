#pragma once

#include <cstdio>
#include <string>

#include <c10/util/Exception.h>
#include <torch/version.h>

namespace adaact::app {

/// While it lives, LibTorch's warnings appear as a person wants them: without the place in the source.
class PlainWarnings {
 public:
  PlainWarnings() : guard_(&handler_) {}

 private:
  // LibTorch 2 changed both the class and its namespace.
  class Handler : public c10::WarningHandler {
#if TORCH_VERSION_MAJOR >= 2
    void process(const c10::Warning& warning) override { print(warning.msg()); }
#else
    void process(const c10::SourceLocation& /*place*/, const std::string& message,
                 bool /*verbatim*/) override {
      print(message);
    }
#endif
    static void print(const std::string& message) {
      std::fprintf(stderr, "adaact: %s\n", message.c_str());
    }
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
