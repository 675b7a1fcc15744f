#pragma once

#include <functional>
#include <string>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/version.h>

namespace adaact {

/// While it lives, what LibTorch warns of on this thread goes to a function instead of being printed,
/// without the place in the source.
class WarningListener {
 public:
  explicit WarningListener(std::function<void(const std::string&)> listen)
      : handler_(std::move(listen)), guard_(&handler_) {}
  WarningListener(const WarningListener&) = delete;  // the guard knows where the handler is
  WarningListener& operator=(const WarningListener&) = delete;

 private:
  // LibTorch 2 changed both the class and its namespace.
  class Handler : public c10::WarningHandler {
   public:
    explicit Handler(std::function<void(const std::string&)> listen) : listen_(std::move(listen)) {}

#if TORCH_VERSION_MAJOR >= 2
    void process(const c10::Warning& warning) override { listen_(warning.msg()); }
#else
    void process(const c10::SourceLocation& /*place*/, const std::string& message,
                 bool /*verbatim*/) override {
      listen_(message);
    }
#endif

   private:
    std::function<void(const std::string&)> listen_;
  };
#if TORCH_VERSION_MAJOR >= 2
  using Guard = c10::WarningUtils::WarningHandlerGuard;
#else
  using Guard = c10::Warning::WarningHandlerGuard;
#endif

  Handler handler_;
  Guard guard_;
};

}  // namespace adaact
