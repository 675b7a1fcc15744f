#include <c10/util/Exception.h>

#include "watch.h"

namespace adaact::app {

int watch_runs(const std::vector<std::filesystem::path>& /*folders*/,
               const ReportOptions& /*options*/, std::optional<int> /*port*/,
               Verbosity /*verbosity*/) {
  TORCH_CHECK(false,
              "this adaact was built without cpp-httplib, which --watch needs; "
              "apt-get install libcpp-httplib-dev and build it again");
}

}  // namespace adaact::app
