#pragma once

#include <string>

namespace adaact {

/// The text of page_script.js, which the build puts into the library.
const std::string& page_script();

}  // namespace adaact
