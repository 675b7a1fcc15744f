#pragma once

#include <map>
#include <string>

namespace adaact {

/// The files in configs/ as they were when this was built: the name of an optimizer and the text of its
/// file, which OptimizerConfig::parse() reads. The build writes the definition (cmake/EmbedConfigs.cmake).
const std::map<std::string, std::string>& embedded_configs();

}  // namespace adaact
