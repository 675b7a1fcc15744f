// The `adaact` tool.

#include "run_tool.h"

int main(int argc, char** argv) { adaact::app::run_tool(argc, argv); }
