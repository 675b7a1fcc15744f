#pragma once

namespace adaact::app {

/// The whole of the `adaact` tool: carries out a command line and ends the process with its exit code.
[[noreturn]] void run_tool(int argc, char** argv);

}  // namespace adaact::app
